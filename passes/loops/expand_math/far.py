"""The functions of `loops.far` as straight-line arithmetic, which targets call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.arith_builder import ScalarType
from ocannl.dialects.scalar.far_op import FAR_FUNCTIONS
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.far_angle import far_angle
from ocannl.passes.loops.expand_math.remainder import far_remainder

FORMULAS: Mapping[str, Callable[..., SSAValue]] = {
    "sine": partial(far_angle, cosine=False),
    "cosine": partial(far_angle, cosine=True),
    "remainder": far_remainder,
}


@dataclass(frozen=True)
class Formula:
    """Operations in order, their arguments and their result."""

    arguments: Sequence[BlockArgument]
    ops: Sequence[Operation]
    result: SSAValue


def formula(function: str, type: ScalarType) -> Formula:
    """The operations of a function, which are in no block."""
    block, b = Block(arg_types=[type] * FAR_FUNCTIONS[function]), MathBuilder(type)
    result = FORMULAS[function](b, *block.args)
    return Formula(block.args, b.ops, result)
