"""Rows of tiles that are points of several variables, as images and positions are in a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from xdsl.ir import Block, Operation, Region

from ocannl.dialects.kernel.point import Numbered, PointOp
from ocannl.dialects.loops import NestOp
from ocannl.lowering.loops_to_kernels.draft import Draft, guarded
from ocannl.passes.analysis.patterns.contractions import LEAST_SIDE, Contraction, row_variables

T = TypeVar("T")


def choose_rows(
    draft: Draft, nest: NestOp, found: Contraction, choose: Callable[[Contraction], tuple[int, T]]
) -> tuple[Contraction, T]:
    """A contraction, and the tile that is chosen for it at a cost; with rows of all variables that can be
    merged, if that costs less.
    """
    rows = row_variables(nest, found)
    if len(rows) < 2:
        return found, choose(found)[1]
    row = draft.names.fresh("row")
    merged = replace(found, row=row, merged=rows)
    (cost, tile), (merged_cost, merged_tile) = choose(found), choose(merged)
    if cost <= merged_cost and dict(nest.space.data)[found.row] >= LEAST_SIDE:
        return found, tile
    draft.sizes[row] = math.prod(size for _, size in rows)
    return merged, merged_tile


def in_place(draft: Draft, found: Contraction, epilogue: Sequence[Operation]) -> list[Operation]:
    """Puts what follows the sums of a contraction at the points whose rows and columns a thread has."""
    if not found.merged:
        return guarded(draft.bounds, epilogue)
    rows = draft.values[found.row]
    ops = guarded([bound for bound in draft.bounds if bound.index != rows], epilogue)
    return [PointOp(Numbered(found.merged, rows), Region(Block(ops)))]
