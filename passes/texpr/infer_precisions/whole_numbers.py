"""The types of integers and truth values, which follow from operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.ir.errors import PrecisionError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar import SCALAR_OPS, TRUTH_VALUES
from ocannl.dialects.scalar.precisions import BOOL, integer_range, is_float, is_integer, promote
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.scalar.types_of_terms import Element, FloatError, map_leaves, type_over
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    EmbedOp,
    MergeOp,
    RangeOp,
    ScanOp,
    SliceOp,
    ValueOp,
)
from ocannl.dialects.texpr.apply import is_literal
from ocannl.dialects.texpr.nested import nested_in
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.dialects.texpr.tensor_op import TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.passes.texpr.infer_precisions.movements import only_moves


def given_element(value: SSAValue) -> Attribute | None:
    assert isinstance(value.type, TensorType)
    return value.type.element_or_none


@dataclass
class WholeNumbers:
    """The types of values that are no floats, and of floats that are computed from integers alone.

    Whole numbers computed from numbers alone, and choices between such, are `soft`: they are floats where
    only floats are computed from them, and else integers of at least 32 bits.
    """

    kinds: dict[SSAValue, Element] = field(default_factory=dict[SSAValue, Element])
    """The element types of all values, some float for those that are floats."""
    settled: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    soft: set[SSAValue] = field(default_factory=set[SSAValue])
    wanted: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    """The integer types that soft values are used as."""

    @staticmethod
    def of(ops: Sequence[Operation], numbers: set[SSAValue]) -> WholeNumbers:
        found = WholeNumbers()
        found.read_all(ops, numbers)
        if found.soft:
            for op in reversed([*nested_in(ops)]):
                found.want(op)
            found.settled |= {value: promote(i32, type) for value, type in found.wanted.items()}
        return found

    def read_all(self, ops: Sequence[Operation], numbers: set[SSAValue]) -> None:
        for op in ops:
            if isinstance(op, ScanOp):
                self.read_scan(op, numbers)
            elif isinstance(op, TensorOp):
                self.read(op, numbers)

    def read_scan(self, op: ScanOp, numbers: set[SSAValue]) -> None:
        """Notes the types of a scan's results and of all values in its body. A carry that begins with a
        number that could have other types has that of what is yielded; one whose result is known has its.
        """
        results = dict(zip(op.carry_arguments, op.results, strict=False))
        for argument, value in zip(op.arguments, op.operands, strict=True):
            given = given_element(results.get(argument, argument)) or given_element(argument)
            self.settle(argument, given or self.kinds[value] or i32)
        for _ in range(1 + op.carried.data):
            self.read_all(op.steps, numbers)
            wider = [
                (argument, kind)
                for argument, init, value in zip(
                    op.carry_arguments, op.inits, op.yielded.carries, strict=True
                )
                if (kind := self.kinds[value]) is not None
                and kind != self.kinds[argument]
                and (can_widen(init, self.soft) or is_float(kind) > is_float(self.kinds[argument] or i32))
            ]
            if not wider:
                break
            for argument, kind in wider:
                self.settled.pop(argument, None)
                self.settle(argument, kind)
        for result, value in zip(op.results, op.yielded.values, strict=True):
            self.settle(result, given_element(result) or self.kinds[value] or i32)
        for result, argument in zip(op.results, op.carry_arguments, strict=False):
            self.settled.pop(result, None)
            self.settle(result, self.kinds[argument] or i32)

    def settle(self, value: SSAValue, kind: Attribute) -> None:
        """Notes the type of a value that is outside of all rules for numbers."""
        self.kinds[value] = kind
        if not is_float(kind) and given_element(value) is None:
            self.settled[value] = kind

    def read(self, op: TensorOp, numbers: set[SSAValue]) -> None:
        """Notes the type of a result, as far as the operands tell it."""
        value, given = op.result, given_element(op.result)
        self.settled.pop(value, None)
        self.soft.discard(value)
        kind = self.kinds[value] = self.kind(op) if given is None else given
        if given is not None:
            return
        if kind is None or not is_float(kind):
            if kind is None or (value in numbers and kind != BOOL):
                self.soft.add(value)
            else:
                self.settled[value] = kind
        elif isinstance(op, ApplyOp) and value not in numbers and not self.has_floats(op):
            self.settled[value] = kind

    def has_floats(self, op: ApplyOp) -> bool:
        """Whether floats are among the operands and numbers of an operation."""
        kinds = [self.kinds[operand] for operand in op.args]
        return any(map(is_float, kinds)) or has_float(op.term.data)

    def kind(self, op: TensorOp) -> Element:
        match op:
            case ConstantOp(value=value) if isinstance(value, int):
                least, most = integer_range(i32)
                return None if least <= value <= most else i64
            case RangeOp() | EmbedOp():
                return i32
            case SliceOp() | ValueOp() | MergeOp() | ArgumentOp():
                return self.kinds[op.source]
            case ApplyOp():
                return self.literal(op) if is_literal(op) else self.result(op)
            case _:
                return f32

    def literal(self, op: ApplyOp) -> Element:
        """The type of a number that is read: any float, or any integer."""
        (source,) = op.args
        kind = self.kinds[source]
        return None if kind is None or is_integer(kind) else f32

    def result(self, op: ApplyOp) -> Element:
        try:
            found = type_over(typed_term(op), tuple([self.kinds[operand] for operand in op.args]))
        except FloatError as error:
            raise PrecisionError(at_line(op, str(error))) from None
        if op.accum_name in TRUTH_VALUES:
            return BOOL
        return self.counted(op, found) if op.accum_name in ("add", "mul") else found

    def counted(self, op: ApplyOp, found: Element) -> Element:
        """The type of an accumulation of numbers: truth values are counted, unless they are only moved."""
        if found not in (BOOL, i32):
            return found
        are_truths = found == BOOL or all(self.kinds[operand] == BOOL for operand in op.args)
        return BOOL if are_truths and only_moves(op) else i32

    def want(self, op: Operation) -> None:
        """Notes which integers an operation wants of soft operands."""
        if isinstance(op, ScanOp):
            for argument, value in zip(op.arguments, op.operands, strict=True):
                self.note(value, self.kinds[argument])
            for result, value in zip(op.results, op.yielded.values, strict=True):
                self.note(value, self.kinds[result])
        elif isinstance(op, AssignOp):
            self.note(op.value, self.kinds[op.target])
        elif isinstance(op, ApplyOp) and not self.soft.isdisjoint(op.args):
            kinds = [None if operand in self.soft else self.kinds[operand] for operand in op.args]
            own = self.wanted.get(op.result) if op.result in self.soft else self.kinds[op.result]

            def leaf(term: Arg | Const, type: Element) -> Term:
                if isinstance(term, Arg):
                    self.note(op.args[term.index], type)
                return term

            map_leaves(typed_term(op), kinds, None if own == BOOL else own, leaf)

    def note(self, value: SSAValue, type: Element) -> None:
        if value in self.soft and type is not None and not is_float(type) and type != BOOL:
            self.wanted[value] = promote(self.wanted.get(value, type), type)


def can_widen(init: SSAValue, soft: set[SSAValue]) -> bool:
    """Whether a carry begins with a number, or True or False, which could have other types."""
    return init in soft or (isinstance(init.owner, ConstantOp) and given_element(init) == BOOL)


def has_float(term: Term) -> bool:
    match term:
        case Const(value):
            return isinstance(value, float)
        case App(_, args):
            return any(map(has_float, args))
        case Arg():
            return False


def typed_term(op: ApplyOp) -> Term:
    """The term whose type the operation has: where the neutral element of the accumulation is chosen, it has
    the type of what else is chosen.
    """
    term = op.term.data
    if not isinstance(term, App) or not chooses_neutral(op):
        return term
    return App("where", (*term.args[:2], term.args[1]))


def chooses_neutral(op: ApplyOp) -> bool:
    """Whether an accumulation is of values where a condition holds, and of its neutral element elsewhere."""
    term, accum = op.term.data, op.accum_name
    if accum is None or not isinstance(term, App) or term.op != "where":
        return False
    neutral = SCALAR_OPS[accum].neutral
    return neutral is not None and term.args[2] == Const(neutral)
