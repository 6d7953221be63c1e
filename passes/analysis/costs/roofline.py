"""The work of the steps of a routine as a roofline sees it: products, other operations, and bytes of memory
(Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model", 2009).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from xdsl.dialects import arith

from ocannl.dialects.index.memref import element_type
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.precisions import dtype_name, widest
from ocannl.passes.analysis.costs.work import block_flops, bytes_moved, flops
from ocannl.passes.analysis.nests import Step, all_steps, names_in, nests_of, points


@dataclass(frozen=True)
class StepWork:
    """The work of a step that is run so many times.

    Attributes:
        products: floating-point operations of matrix products, by the dtype of what is multiplied.
        others: all other operations.
        bytes: bytes of the cells that it accesses, each once.
        times: how often it runs.
    """

    products: Counter[str]
    others: int
    bytes: int
    times: int


def runs_of(func: FuncOp, times: int = 1) -> Iterator[tuple[Step, int]]:
    """The steps of a function and of the bodies that it repeats, with how often each runs."""
    for step in all_steps(func):
        if isinstance(step, RepeatOp):
            yield from runs_of(step.func, times * step.count.data)
        else:
            yield step, times


def works_of(func: FuncOp) -> Iterator[StepWork]:
    """The work of each step of a function that computes."""
    for step, times in runs_of(func):
        if not isinstance(step, NestOp | GroupOp):
            continue
        products, others = Counter[str](), flops(step)
        for op in (op for nest in nests_of(step) for op in nest.body.block.ops):
            if isinstance(op, ReduceOp) and (dtype := product_dtype(op)) is not None:
                reached = points(op.space.data) * math.prod(scope_sizes(op).values())
                products[dtype] += 2 * reached
                # Conversions of what is multiplied are part of the product.
                others -= reached * (1 + block_flops(op.body.block.ops))
        yield StepWork(products, others, bytes_moved(step), times)


def product_dtype(reduction: ReduceOp) -> str | None:
    """The dtype of what a matrix product multiplies: a sum of products of two loads, each along variables of
    the nest that the other one does not have. None for any other reduction.
    """
    loads = [op for op in reduction.body.block.ops if isinstance(op, LoadOp)]
    multiplied = any(isinstance(op, arith.MulfOp) for op in reduction.body.block.ops)
    if reduction.accum.data != "add" or not multiplied or len(loads) != 2:
        return None
    own = set(scope_sizes(reduction))
    first, second = (names_in(load.indices.data) & own for load in loads)
    if first <= second or second <= first:
        return None
    element = widest(element_type(load.node) for load in loads)
    return None if element is None else dtype_name(element)
