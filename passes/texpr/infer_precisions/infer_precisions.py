"""`infer-precisions`: the element types that the user left open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.ir.op_helpers import operands_of, operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.precisions import computed_in, float_or, is_float, widest
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    EmbedOp,
    MergeOp,
    NodeOp,
    RangeOp,
    ScanOp,
    SliceOp,
    TexprRoutineOp,
    ValueOp,
    YieldOp,
)
from ocannl.dialects.texpr.apply import is_literal
from ocannl.dialects.texpr.nested import nested, values_in
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.dialects.texpr.tensor_op import LikeOp, TensorOp
from ocannl.dialects.texpr.tensor_type import known_type, refine_type, shape_of, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_precisions.numbers import settle_numbers
from ocannl.passes.texpr.infer_precisions.sweeps import Sweeps
from ocannl.passes.texpr.infer_precisions.whole_numbers import WholeNumbers, given_element

NUMBERS = (ConstantOp, EmbedOp, RangeOp, UniformOp)
# The operations that make types known to each other's.
PROPAGATING = (ApplyOp, SliceOp, ValueOp, MergeOp, LikeOp, AssignOp, ScanOp, YieldOp, ArgumentOp)


@dataclass
class Precisions:
    """Element types by value: floats are propagated up from operands to results, and down from results into
    leaves, to a fixpoint. Those of integers and truth values follow from the operands alone.

    Values computed from `numbers` alone - constants, positions, static indices, random numbers - have at
    least f32: in fewer bits, positions are not exact. So have `state`, nodes to which code adds repeatedly,
    and values computed from state and numbers, but for casts; and so have all values computed with these.
    Whole numbers take the type of what they are used for: `whole` has that of integers.
    """

    numbers: set[SSAValue]
    state: set[SSAValue]
    known: dict[SSAValue, Attribute]
    """The element types of values, at first those that were given or settled."""
    used_for: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    """The widest precision of the known results that a value is used for."""
    ops: Sequence[Operation] = ()
    """The operations that propagate, in order."""
    places: Mapping[Operation, int] = field(default_factory=dict[Operation, int])
    """The places of these operations."""
    upwards: Sweeps = field(default_factory=lambda: Sweeps(()))
    downwards: Sweeps = field(default_factory=lambda: Sweeps(()))
    """The places of those to look at again, since what they depend on has changed."""
    outside_decides: bool = False
    """Whether a loop has types of what is around it where nothing inside decides: of a number that it begins
    with, which is f32 since another routine was compiled, and of uses of its results.
    """

    def learn(self, value: SSAValue, element: Attribute | None) -> None:
        if element is None or value in self.known:
            return
        self.known[value] = element
        self.note_use(value.owner, element)
        for op in touching(value):
            place = self.places.get(op)
            if place is not None:
                self.upwards.add(place)
                self.downwards.add(place)

    def note_use(self, op: Operation | Block, element: Attribute | None) -> None:
        """Demands that the operands of an operation on floats have this precision."""
        if element is not None and is_float(element) and isinstance(op, ApplyOp | SliceOp):
            for operand in operands_of(op):
                before = self.used_for.get(operand)
                wide = element if before is None or before is element else widest([before, element])
                if wide is not None and wide is not before and wide != before:
                    self.used_for[operand] = wide
                    for use in operand.uses:
                        if (place := self.places.get(use.operation)) is not None:
                            self.downwards.add(place)

    def demand(self, value: SSAValue, element: Attribute | None) -> None:
        """Gives a value a float type because of a use."""
        if element is not None:
            is_exact = value in self.numbers or value in self.state
            self.learn(value, computed_in(element) if is_exact else float_or(element))

    def common(self, op: ApplyOp) -> Attribute | None:
        """The widest float among the operands, once that of one is known."""
        operands = operands_of(op)
        found = widest([e for e in map(self.known.get, operands) if e is not None])
        if found is None or self.state.isdisjoint(operands):
            return found
        return widest([found, f32])

    def begin(self, ops: Sequence[Operation]) -> None:
        """Has `propagate` look at all operations."""
        self.ops = [op for op in ops if isinstance(op, PROPAGATING)]
        places = range(len(self.ops))
        self.places = dict(zip(self.ops, places, strict=True))
        self.upwards, self.downwards = Sweeps(places), Sweeps(places, backwards=True)

    def propagate(self) -> None:
        """Learns what follows from what is known."""
        while self.upwards.following or self.downwards.following:
            for place in self.upwards.sweep():
                self.up(self.ops[place])
            for place in self.downwards.sweep():
                self.down(self.ops[place])

    def up(self, op: Operation) -> None:
        known = self.known.get
        if is_literal(op):
            return
        if isinstance(op, ApplyOp):
            element = known(op.result)
            if element is None:
                self.learn(op.result, self.common(op))
            elif not is_float(element):
                self.note_use(op, self.common(op))
        elif isinstance(op, SliceOp | ArgumentOp):
            self.learn(op.result, known(op.source))
        elif isinstance(op, ValueOp | MergeOp):
            self.learn(op.result, known(op.source))
            self.learn(op.source, known(op.result))
        elif isinstance(op, LikeOp):
            like = known(op.like)
            self.learn(op.result, None if like is None else float_or(like))
            self.learn(op.like, known(op.result))
        elif isinstance(op, ScanOp):
            weak = set[SSAValue]() if self.outside_decides else self.numbers.intersection(op.inits)
            for same in same_types(op):
                deciding = [value for value in same if value not in weak]
                element = next((e for e in map(known, deciding) if e is not None), None)
                for value in same:
                    self.demand(value, element)
        elif isinstance(op, YieldOp):
            scan = op.parent_op()
            assert isinstance(scan, ScanOp)
            # Now, before anything that reads the results.
            for result, (value, _) in zip(scan.results[scan.carried.data :], op.stacked, strict=True):
                self.demand(result, known(value))

    def down(self, op: Operation) -> None:
        if isinstance(op, ApplyOp | SliceOp):
            for operand in operands_of(op):
                if operand not in self.known and (self.outside_decides or type(operand.owner) is not ScanOp):
                    self.demand(operand, self.used_for.get(operand))
        elif isinstance(op, LikeOp):
            for result, operand in op.refinements:
                self.demand(operand, self.known.get(result))
        elif isinstance(op, AssignOp):
            self.demand(op.value, self.known.get(op.target))
            self.demand(op.target, self.known.get(op.value))


def touching(value: SSAValue) -> Iterator[Operation]:
    """The operations whose types depend on that of a value: its own and its users, and the scans that it is
    an argument or a result of the body of.
    """
    own = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    if own is not None:
        yield own
    for use in value.uses:
        yield use.operation
        if isinstance(use.operation, YieldOp) and (scan := use.operation.parent_op()) is not None:
            yield scan


def same_types(op: ScanOp) -> Iterator[tuple[SSAValue, ...]]:
    """Values outside and inside of a scan that have one type."""
    yielded, carried = op.yielded, op.carried.data
    for number, argument in enumerate(op.arguments):
        if number < carried:
            yield argument, op.inits[number], yielded.carries[number], op.results[number]
        else:
            yield argument, op.operands[number]
    for result, (value, _) in zip(op.results[carried:], yielded.stacked, strict=True):
        yield value, result


def wider_in_scans(ops: Iterable[TensorOp], known: Mapping[SSAValue, Attribute]) -> dict[SSAValue, Attribute]:
    """The carries of scans in which wider floats are yielded than they were taken to be, with these types;
    and what bodies read as wider or narrower floats than it is outside, with the wider type.
    """
    found: dict[SSAValue, Attribute] = {}
    for op in (op for op in ops if isinstance(op, ScanOp)):
        for argument, value in zip(op.carry_arguments, op.yielded.carries, strict=True):
            pair = [known[each] for each in (argument, value) if each in known]
            wide = widest(pair)
            if wide is not None and wide != known.get(argument) and all(map(is_float, pair)):
                found[argument] = wide
        carried = op.carried.data
        for argument, operand in zip(op.arguments[carried:], op.operands[carried:], strict=True):
            pair = [known[each] for each in (argument, operand) if each in known]
            if len({*pair}) == 2 and (wide := widest(pair)) is not None and all(map(is_float, pair)):
                found[argument] = found[operand] = wide
    return found


def computed_from(
    kinds: tuple[type[TensorOp], ...], ops: Iterable[TensorOp], numbers: Collection[SSAValue] | None = None
) -> set[SSAValue]:
    """The values that are computed from operations of some kinds alone, but for casts to small floats; where
    `numbers` are given, also what loops carry that begin with such a value, but no number.
    """
    found: set[SSAValue] = set()
    for op in ops:
        if isinstance(op, ScanOp):
            carried = op.carried.data
            pairs = zip(op.arguments[carried:], op.operands[carried:], strict=True)
            found.update(argument for argument, operand in pairs if operand in found)
            if numbers is not None:
                begun = zip(op.carry_arguments, op.inits, strict=True)
                found.update(a for a, init in begun if init in found and not begins_small(init, numbers))
        elif isinstance(op, ApplyOp) and not is_literal(op):
            if found.issuperset(operands_of(op)) and not is_small(given_element(op.result)):
                found.add(op.result)
        elif is_literal(op) or isinstance(op, kinds):
            found.add(op.result)
    return found


def begins_small(init: SSAValue, numbers: Collection[SSAValue]) -> bool:
    """Whether a loop that begins with a value may carry less than f32."""
    return init in numbers or is_small(given_element(init))


def is_small(element: Attribute | None) -> bool:
    """Whether an element type is a float of 8 or 16 bits."""
    return element is not None and is_float(element) and computed_in(element) != element


def given_or_settled(ops: Iterable[TensorOp], whole: WholeNumbers) -> dict[SSAValue, Attribute]:
    """The element types of values that were given, or that follow from integers."""
    found = whole.settled.copy()
    for value in values_in(ops):
        given = given_element(value)
        if given is not None:
            found[value] = given
    return found


def infer_precisions(routine: TexprRoutineOp) -> None:
    ops = [*nested(routine.body.block)]
    tensors = [op for op in ops if isinstance(op, TensorOp)]
    numbers = computed_from(NUMBERS, tensors)
    whole = WholeNumbers.of(operations_of(routine.body.block), numbers)
    state = computed_from((*NUMBERS, NodeOp), tensors, numbers) - numbers
    given = given_or_settled(tensors, whole)
    while True:
        precisions = Precisions(numbers, state, given.copy())
        for op in tensors:
            precisions.note_use(op, precisions.known.get(op.result))
        if any(type(op) is ScanOp for op in tensors):
            precisions.begin(ops)
            precisions.propagate()
        precisions.outside_decides = True
        precisions.begin(ops)
        precisions.propagate()
        for value in values_in(tensors):
            if value not in whole.soft:
                precisions.learn(value, f32)
        precisions.propagate()
        wider = wider_in_scans(tensors, precisions.known)
        if wider.keys() <= given.keys():
            break
        given = wider | given
    for value in values_in(tensors):
        if tensor_type(value).element_or_none is None:
            element = precisions.known.get(value) or whole.kinds[value] or i32
            refine_type(value, known_type(shape_of(value), element))
    for op in tensors:
        if isinstance(op, ApplyOp | ConstantOp):
            settle_numbers(op)
        if is_literal(op):
            del op.properties["literal"]


@dataclass(frozen=True)
class InferPrecisionsPass(ModulePass):
    """Type inference of element types by dataflow, bottom-up from operands, top-down into leaves and
    parameters; f32 where nothing determines one, and i32 for whole numbers. Integers are combined as in JAX
    with 64 bits.
    """

    name = "infer-precisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                infer_precisions(routine)
