"""The blocks in which sums of floats are added up, so that their errors grow slowly with their length."""

from __future__ import annotations

import math

from ocannl.dialects.loops import NestOp, ReduceOp, SumBlocksAttr
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.sums import MULTIPLIED, SUMMED, is_float_sum, is_product


def add_in_blocks(nest: NestOp) -> None:
    """Gives the sums of a nest that are longer than a block their blocks, unless they have some."""
    for op in operations(nest.body.block):
        if type(op) is ReduceOp and is_float_sum(op) and op.blocks is None:
            blocks = MULTIPLIED if is_product(op) else SUMMED
            if math.prod(size for _, size in op.space.data) > blocks.size:
                op.blocks = SumBlocksAttr(blocks)
