"""`infer-precisions`: the element types that the user left open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.scalar.precisions import computed_in, float_or, is_float, widest
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    EmbedOp,
    NodeOp,
    RangeOp,
    SliceOp,
    TexprRoutineOp,
    ValueOp,
)
from ocannl.dialects.texpr.tensor_op import LikeOp, TensorOp
from ocannl.dialects.texpr.tensor_type import known_type, refine_type, shape_of
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_precisions.numbers import settle_numbers
from ocannl.passes.texpr.infer_precisions.whole_numbers import WholeNumbers, given_element

NUMBERS = (ConstantOp, EmbedOp, RangeOp, UniformOp)


@dataclass
class Precisions:
    """Element types by value: floats are propagated up from operands to results, and down from results into
    leaves, to a fixpoint. Those of integers and truth values follow from the operands alone.

    Values computed from `numbers` alone - constants, positions, static indices, random numbers - have at
    least f32: in fewer bits, positions are not exact. So have `state`, nodes to which code adds repeatedly,
    and values computed from state and numbers; and so have all values computed with these. Whole numbers take
    the type of what they are used for: `whole` has that of integers.
    """

    numbers: set[SSAValue]
    state: set[SSAValue]
    whole: WholeNumbers
    known: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    used_for: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    """The widest precision of the known results that a value is used for."""
    changed: bool = False

    def element(self, value: SSAValue) -> Attribute | None:
        return given_element(value) or self.whole.settled.get(value) or self.known.get(value)

    def learn(self, value: SSAValue, element: Attribute | None) -> None:
        if element is None or self.element(value) is not None:
            return
        self.known[value] = element
        self.changed = True
        self.note_use(value.owner, element)

    def note_use(self, op: Operation | Block, element: Attribute | None) -> None:
        """Demands that the operands of an operation on floats have this precision."""
        if element is not None and is_float(element) and isinstance(op, ApplyOp | SliceOp):
            for operand in op.operands:
                wide = widest([self.used_for.get(operand, element), element])
                if wide is not None:
                    self.used_for[operand] = wide

    def demand(self, value: SSAValue, element: Attribute | None) -> None:
        """Gives a value a float type because of a use."""
        if element is not None:
            is_exact = value in self.numbers or value in self.state
            self.learn(value, computed_in(element) if is_exact else float_or(element))

    def common(self, op: ApplyOp) -> Attribute | None:
        """The widest float among the operands, once that of one is known."""
        found = widest([e for e in map(self.element, op.operands) if e is not None])
        if found is None or self.state.isdisjoint(op.operands):
            return found
        return widest([found, f32])

    def propagate(self, ops: Sequence[Operation]) -> None:
        """Learns what follows from what is known."""
        while True:
            self.changed = False
            for op in ops:
                self.up(op)
            for op in reversed(ops):
                self.down(op)
            if not self.changed:
                break

    def up(self, op: Operation) -> None:
        if isinstance(op, SliceOp):
            self.learn(op.result, self.element(op.source))
        elif isinstance(op, ApplyOp):
            common = self.common(op)
            if self.element(op.result) is None:
                self.learn(op.result, common)
            elif not is_float(self.element(op.result) or f32):
                self.note_use(op, common)
        elif isinstance(op, ValueOp):
            self.learn(op.result, self.element(op.source))
            self.learn(op.source, self.element(op.result))
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
    whole = WholeNumbers.of(ops, numbers)
    precisions = Precisions(numbers, computed_from((*NUMBERS, NodeOp), ops) - numbers, whole)
    for op in ops:
        if isinstance(op, TensorOp):
            precisions.note_use(op, precisions.element(op.result))
    precisions.propagate(ops)
    for op in ops:
        if isinstance(op, TensorOp) and op.result not in whole.soft:
            precisions.learn(op.result, f32)
    precisions.propagate(ops)
    for op in ops:
        if isinstance(op, TensorOp) and op.result.type.element_or_none is None:
            element = precisions.element(op.result) or whole.kinds[op.result] or i32
            refine_type(op.result, known_type(shape_of(op.result), element))
    for op in ops:
        if isinstance(op, ApplyOp | ConstantOp):
            settle_numbers(op)


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
