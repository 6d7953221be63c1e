"""The blocks in which sums of floats are added up, so that their errors grow slowly with their length."""

from __future__ import annotations

import math

from ocannl.dialects.loops import NestOp, ReduceOp, SumBlocks, SumBlocksAttr
from ocannl.passes.analysis.sums import is_contraction, is_float_sum

# With 8 accumulators, 16 steps of each are what NumPy adds up before it adds in pairs.
SUMMED = SumBlocks(16, compensated=True)
# Of a contraction, whose accumulators fill the registers.
CONTRACTED = SumBlocks(256)


def add_in_blocks(nest: NestOp) -> None:
    """Gives the sums of a nest that are longer than a block their blocks, unless they have some."""
    for op in nest.walk():
        if isinstance(op, ReduceOp) and is_float_sum(op) and op.blocks is None:
            blocks = CONTRACTED if is_contraction(op) else SUMMED
            if math.prod(size for _, size in op.space.data) > blocks.size:
                op.blocks = SumBlocksAttr(blocks)
