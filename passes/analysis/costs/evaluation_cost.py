"""The cost of evaluating a stored value again at another place, for `inline-nodes`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from ocannl.dialects.index.linear import Map, Space
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cost import instructions
from ocannl.passes.analysis.nests import Indexed, names_in, reduction_work, with_reduced
from ocannl.passes.analysis.patterns.one_hot import NeutralElsewhere, one_hots

# The greatest cost of a body that is evaluated at its uses because it is the same at every point: targets
# evaluate it once a nest then. Nearly all functions cost more.
CHEAP_IF_UNIFORM = 18
# The greatest cost of a body that is evaluated at its uses because it is 0 unless an index is some number.
CHEAP_IF_CHOOSING = 8


@dataclass(frozen=True, slots=True)
class EvaluationCost:
    """The cost of one evaluation of a body.

    Attributes:
        operations: instructions, those in reductions counted once.
        arrays: the loads that differ at every point.
        reduction_work: evaluations of the innermost bodies of reductions.
        is_uniform: the value is the same at every point.
        chooses: the value is 0 unless an index equals some number, so that a reduction over that index is
            evaluated at the number alone.
        converts: a float is computed from an integer in memory.
    """

    operations: int
    arrays: int
    reduction_work: int
    is_uniform: bool
    chooses: bool
    converts: bool

    @property
    def is_free(self) -> bool:
        """Whether to store the value never pays."""
        if self.reduction_work or self.arrays > 1:
            return False
        if self.chooses and self.operations <= CHEAP_IF_CHOOSING:
            return True
        return self.operations == 0 or (self.is_uniform and self.operations <= CHEAP_IF_UNIFORM)


def cost_of(ops: Sequence[Operation], space: Space, value: SSAValue) -> EvaluationCost:
    """The cost of evaluating `value`, whose backward slice is `ops`, at a point of a space. Constant
    operations cost nothing.
    """
    total, is_uniform = 0, True
    arrays: set[tuple[SSAValue, Map]] = set()
    constants: set[SSAValue] = set()
    variables = {name for name, size in space if size > 1}
    for op in with_reduced(ops):
        if is_constant(op, constants):
            constants.update(op.results)
            continue
        total += 0 if is_loaded_wide(op) else instructions(op)
        if isinstance(op, Indexed):
            varying = variables & names_in(op.indices.data)
            is_uniform = is_uniform and not varying
            if isinstance(op, LoadOp) and varying == variables:
                arrays.add((op.node, op.indices.data))
    chooses = any(
        NeutralElsewhere(one_hot.comparison, 0.0).holds(value) for one_hot in one_hots(ops, dict(space))
    )
    converts = any(map(is_converted, ops))
    return EvaluationCost(total, len(arrays), reduction_work(ops), is_uniform, chooses, converts)


def is_loaded_wide(op: Operation) -> bool:
    """Whether an operation widens an integer that is loaded: one instruction does both."""
    return isinstance(op, arith.ExtSIOp | arith.ExtUIOp) and isinstance(op.input.owner, LoadOp)


def is_converted(op: Operation) -> bool:
    """Whether an operation makes a float of an integer that is loaded."""
    return isinstance(op, arith.SIToFPOp | arith.UIToFPOp) and isinstance(op.input.owner, LoadOp)


def is_constant(op: Operation, constants: set[SSAValue]) -> bool:
    if isinstance(op, arith.ConstantOp):
        return True
    if not constants or not op.operands or not op.has_trait(Pure):
        return False
    return all(operand in constants for operand in op.operands)
