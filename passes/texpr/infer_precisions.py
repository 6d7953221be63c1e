"""`infer-precisions`: the element types that the user left open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.scalar.precisions import computed_in, float_or, widest
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    EmbedOp,
    NodeOp,
    RangeOp,
    SliceOp,
    TexprRoutineOp,
)
from ocannl.dialects.texpr.tensor_op import LikeOp, TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType, known_type, refine_type, shape_of
from ocannl.dialects.texpr.uniform import UniformOp

NUMBERS = (ConstantOp, EmbedOp, RangeOp, UniformOp)


@dataclass
class Precisions:
    """Element types by value: propagated up from operands to results, and down from results into leaves, to a
    fixpoint.

    Values computed from `numbers` alone - constants, positions, static indices, random numbers - have at
    least f32: in fewer bits, positions are not exact. So have `state`, nodes to which code adds repeatedly,
    and values computed from state and numbers; and so have all values computed with these.
    """

    numbers: set[SSAValue]
    state: set[SSAValue]
    known: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    used_for: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    """The widest precision of the known results that a value is used for."""
    changed: bool = False

    def element(self, value: SSAValue) -> Attribute | None:
        assert isinstance(value.type, TensorType)
        return value.type.element_or_none or self.known.get(value)

    def learn(self, value: SSAValue, element: Attribute | None) -> None:
        if element is None or self.element(value) is not None:
            return
        self.known[value] = element
        self.changed = True
        self.note_use(value.owner, element)

    def note_use(self, op: Operation | Block, element: Attribute | None) -> None:
        """Demands that the result of an operation has this precision."""
        if element is not None and isinstance(op, ApplyOp | SliceOp):
            for operand in op.operands:
                wide = widest([self.used_for.get(operand, element), element])
                if wide is not None:
                    self.used_for[operand] = wide

    def demand(self, value: SSAValue, element: Attribute | None) -> None:
        """Gives a value a float type because of a use."""
        if element is not None:
            is_exact = value in self.numbers or value in self.state
            self.learn(value, computed_in(element) if is_exact else float_or(element))

    def result(self, op: ApplyOp) -> Attribute | None:
        """The widest precision of the operands, once that of one is known."""
        known = [e for e in map(self.element, op.operands) if e is not None]
        found = widest(known)
        if found is None or self.state.isdisjoint(op.operands):
            return found
        return widest([found, f32])

    def up(self, op: Operation) -> None:
        if isinstance(op, SliceOp):
            self.learn(op.result, self.element(op.source))
        elif isinstance(op, ApplyOp):
            self.learn(op.result, self.result(op))
        elif isinstance(op, LikeOp):
            like = self.element(op.like)
            self.learn(op.result, None if like is None else float_or(like))
            self.learn(op.like, self.element(op.result))

    def down(self, op: Operation) -> None:
        if isinstance(op, ApplyOp | SliceOp):
            for operand in op.operands:
                self.demand(operand, self.used_for.get(operand))
        elif isinstance(op, LikeOp):
            for result, operand in op.refinements:
                self.demand(operand, self.element(result))
        elif isinstance(op, AssignOp):
            self.demand(op.value, self.element(op.target))
            self.demand(op.target, self.element(op.value))


def computed_from(kinds: tuple[type[TensorOp], ...], ops: Iterable[Operation]) -> set[SSAValue]:
    """The values that are computed from operations of some kinds alone."""
    found: set[SSAValue] = set()
    for op in ops:
        if isinstance(op, kinds) or (isinstance(op, ApplyOp) and found.issuperset(op.operands)):
            assert isinstance(op, TensorOp)
            found.add(op.result)
    return found


def infer_precisions(routine: TexprRoutineOp) -> None:
    ops = list(routine.body.block.ops)
    numbers = computed_from(NUMBERS, ops)
    precisions = Precisions(numbers, computed_from((*NUMBERS, NodeOp), ops) - numbers)
    for op in ops:
        if isinstance(op, TensorOp):
            precisions.note_use(op, op.result.type.element_or_none)
    while True:
        precisions.changed = False
        for op in ops:
            precisions.up(op)
        for op in reversed(ops):
            precisions.down(op)
        if not precisions.changed:
            break
    for op in ops:
        if isinstance(op, TensorOp) and op.result.type.element_or_none is None:
            element = precisions.known.get(op.result, f32)
            refine_type(op.result, known_type(shape_of(op.result), element))


@dataclass(frozen=True)
class InferPrecisionsPass(ModulePass):
    """Type inference of element types by dataflow, bottom-up from operands, top-down into leaves and
    parameters; f32 where nothing determines one.
    """

    name = "infer-precisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                infer_precisions(routine)
