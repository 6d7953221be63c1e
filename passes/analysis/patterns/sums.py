"""Sums of floats among reductions: products of matrices and vectors, and the others."""

from __future__ import annotations

from xdsl.dialects.arith import MulfOp, MuliOp
from xdsl.ir import SSAValue

from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import LoadOp, ReduceOp, SumBlocks, YieldOp
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.passes.analysis.nests import names_in
from ocannl.passes.analysis.values.slices import backward_slice

# With 8 accumulators, 16 steps of each are what NumPy adds up before it adds in pairs.
SUMMED = SumBlocks(16, compensated=True)
# Of a product, whose accumulators fill the registers.
MULTIPLIED = SumBlocks(256)


def is_float_sum(reduction: ReduceOp) -> bool:
    return reduction.accum.data == "add" and not is_integer(reduction.result.type)


def is_contraction(reduction: ReduceOp) -> bool:
    """Whether two operands of a reduction have an axis of the result each that the other one has not, so that
    both are read again and again.
    """
    around, reduced = scope_sizes(reduction).keys(), set(reduction.space.names)
    operands = [
        used & around
        for op in operations_of(reduction.body.block)
        if type(op) is LoadOp and not reduced.isdisjoint(used := names_in(op.indices.data))
    ]
    return any(x - y and y - x for k, x in enumerate(operands) for y in operands[:k])


def is_product(reduction: ReduceOp) -> bool:
    """Whether a reduction is a contraction, or a product of a matrix with a vector: of two factors with other
    axes of the result; or a sum of parts of such a product.
    """
    parts = [op for op in reduction.body.block.ops if isinstance(op, ReduceOp)]
    if is_contraction(reduction) or any(part.accum.data == "add" and is_product(part) for part in parts):
        return True
    around, reduced = scope_sizes(reduction).keys(), set(reduction.space.names)
    last = reduction.body.block.last_op
    product = last.operands[0].owner if isinstance(last, YieldOp) else None
    if not isinstance(product, MulfOp | MuliOp):
        return False
    factors = [names_around(operand) for operand in product.operands]
    return all(names & reduced for names in factors) and factors[0] & around != factors[1] & around


def names_around(value: SSAValue) -> set[str]:
    """The variables along which what a value is computed from is loaded."""
    loads = [op for op in backward_slice([value]) if isinstance(op, LoadOp)]
    return {name for load in loads for name in names_in(load.indices.data)}
