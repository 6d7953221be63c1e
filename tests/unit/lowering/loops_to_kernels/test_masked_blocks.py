"""Blocks that a mask does not cross do without it; the others have it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32, i32
from xdsl.ir import Operation

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.loops import IndexOp
from ocannl.lowering.loops_to_kernels.masked_blocks import unswitched

BLOCKS, INSIDE = {"g": 5, "h": 4}, {"t": 4, "r": 3}
ROW, COLUMN = Linear.of({"g": 4, "t": 1}), Linear.of({"h": -3, "r": 1}, 9)
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "sle": operator.le,
    "slt": operator.lt,
    "sge": operator.ge,
    "sgt": operator.gt,
}


def value(index: Linear, point: dict[str, int]) -> int:
    return index.constant + sum(coefficient * point[name] for name, coefficient in index.terms)


def masked(predicate: str, left: Linear, right: Linear) -> list[Operation]:
    shown, hidden = (arith.ConstantOp(FloatAttr(number, f32)) for number in (1.0, 0.0))
    rows, columns = IndexOp(left, i32), IndexOp(right, i32)
    compare = arith.CmpiOp(rows, columns, predicate)
    return [shown, hidden, rows, columns, compare, arith.SelectOp(compare, shown, hidden)]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_each_block_is_in_one_version(predicate: str):
    """In that without the mask where all of its elements are seen."""
    whole, edge = unswitched(masked(predicate, ROW, COLUMN), BLOCKS, INSIDE)
    assert isinstance(whole, WhereOp)
    assert isinstance(edge, WhereOp)
    assert not whole.body.block.ops
    assert any(isinstance(op, arith.SelectOp) for op in edge.body.block.ops)
    counts = {True: 0, False: 0}
    for g, h in itertools.product(range(BLOCKS["g"]), range(BLOCKS["h"])):
        at = {"g": g, "h": h}
        seen = all(
            PREDICATES[predicate](value(ROW, at | {"t": t, "r": r}), value(COLUMN, at | {"t": t, "r": r}))
            for t, r in itertools.product(range(INSIDE["t"]), range(INSIDE["r"]))
        )
        for version, holds in ((whole, seen), (edge, not seen)):
            (bound,) = version.where.data
            assert value(bound.index, at) >= 0
            assert (value(bound.index, at) < bound.below) == holds
        counts[seen] += 1
    assert all(counts.values())


def test_other_masks_stay():
    """Two with different edges, and one that compares something else."""
    two = [*masked("sle", ROW, COLUMN), *masked("sle", ROW + Linear((), 1), COLUMN)]
    number = arith.ConstantOp.from_int_and_width(3, i32)
    index = IndexOp(ROW, i32)
    compare = arith.CmpiOp(index, number, "eq")
    for ops in (two, [number, index, compare]):
        assert unswitched(ops, BLOCKS, INSIDE) == ops
