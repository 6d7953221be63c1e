"""Constraints on rows, dimensions and counts of elements: what follows from them, and when they clash."""

from __future__ import annotations

import math

import pytest

from ocannl.passes.texpr.infer_shapes.errors import RankCycle, ShapeConflict
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import (
    EMPTY_ROW,
    Dim,
    DimAtLeast,
    DimLe,
    Leaf,
    LeafKind,
    Row,
    RowEq,
    RowLe,
    Shape,
    TotalElements,
    closed_row,
)


def test_broadcasting_in_the_middle():
    s = Solver()
    middle, result = s.fresh_row(), s.fresh_row()
    s.add(RowEq(Row((), middle), EMPTY_ROW))
    s.add(RowEq(Row((), result), closed_row(2, 7, 3)))
    s.add(RowLe(Row((), result), Row((Dim(2),), middle, (Dim(3),))))
    with pytest.raises(ShapeConflict):
        s.add(RowLe(Row((), result), Row((Dim(7),), middle, (Dim(3),))))


def test_leading_axes_stay_where_they_are_written():
    s = Solver()
    middle = s.fresh_row()
    s.add(RowEq(Row((), middle), closed_row(5)))
    assert s.row(Row((Dim(2),), middle, (Dim(3),))) == Row((Dim(2),), None, (Dim(5), Dim(3)))


def test_bases_must_match():
    s = Solver()
    with pytest.raises(ShapeConflict, match="sizes 3:rgb and 3 differ"):
        s.add(RowLe(closed_row(Dim(3, "rgb")), closed_row(3)))
    s.add(RowLe(closed_row(Dim(3, "rgb")), closed_row(Dim(3, "rgb"))))
    with pytest.raises(ShapeConflict):
        s.add(RowLe(closed_row(3), closed_row(Dim(1, "rgb"))))


def test_rank_cycles():
    s = Solver()
    rho, sigma = s.fresh_row(), s.fresh_row()
    with pytest.raises(RankCycle):
        s.add(RowEq(Row((), rho), Row((s.fresh_dim(),), rho)))
    with pytest.raises(RankCycle):
        s.add(RowLe(Row((), rho), Row((), rho, (Dim(2),))))
    s.add(RowLe(Row((), rho), Row((), sigma, (Dim(2),))))
    with pytest.raises(RankCycle):
        s.add(RowLe(Row((), sigma), Row((), rho)))


def test_rank_cycle_through_an_equation_that_waits():
    s = Solver()
    rho, sigma, dim = s.fresh_row(), s.fresh_row(), s.fresh_dim()
    s.add(RowLe(Row((), rho), Row((), sigma, (dim,))))
    with pytest.raises(RankCycle):
        s.add(RowEq(Row((dim,), sigma), Row((), rho, (dim,))))


def test_equation_that_waits_for_a_rank():
    s = Solver()
    rho, sigma = s.fresh_row(), s.fresh_row()
    s.add(RowEq(Row((Dim(2),), rho), Row((), sigma, (Dim(3), Dim(4)))))
    assert s.row(Row((), rho)).trailing == (Dim(4),)
    s.add(RowEq(Row((), sigma), closed_row(2, 7)))
    assert s.row(Row((), rho)) == closed_row(7, 3, 4)


def test_equation_that_waits_for_a_rank_closes():
    s = Solver()
    rho, sigma, dim = s.fresh_row(), s.fresh_row(), s.fresh_dim()
    s.add(RowEq(Row((Dim(2),), rho), Row((), sigma, (dim,))))
    s.close([])
    assert s.row(Row((), rho)) == s.row(Row((), sigma)) == EMPTY_ROW
    assert s.dim(dim) == Dim(2)


def test_position_in_use_rules_out_broadcasting():
    s = Solver()
    dim = s.fresh_dim()
    s.add(DimLe(Dim(5), dim), DimAtLeast(dim, 4))
    assert s.dim(dim) == Dim(5)


def flat_data(total: int, *rows: Row, s: Solver) -> Leaf:
    s.add(TotalElements(rows, total, "flat"))
    return Leaf(Shape(rows[0], EMPTY_ROW, rows[-1]), LeafKind.DATA, "flat")


def test_total_elements_give_the_last_unknown_size():
    s = Solver()
    dim = s.fresh_dim()
    flat_data(12, closed_row(3), closed_row(dim), s=s)
    assert s.dim(dim) == Dim(4)
    with pytest.raises(ShapeConflict, match="do not divide"):
        flat_data(12, closed_row(s.fresh_dim()), closed_row(5), s=s)


@pytest.mark.parametrize("sizes", [(3, 2), (3, 5), (3, 0)])
def test_total_elements_are_those_of_the_axes(sizes: tuple[int, int]):
    flat_data(math.prod(sizes), *map(closed_row, sizes), s=Solver())
    with pytest.raises(ShapeConflict, match="elements are given, the axes have"):
        flat_data(12, *map(closed_row, sizes), s=Solver())


def test_total_elements_close_flat_data():
    s = Solver()
    batch, output = Row((), s.fresh_row()), Row((), s.fresh_row())
    leaf = flat_data(12, batch, output, s=s)
    s.close([leaf])
    assert (s.row(batch), s.row(output)) == (EMPTY_ROW, closed_row(12))


def test_total_elements_and_uses_close_flat_data():
    s = Solver()
    batch, output = Row((), s.fresh_row(), (s.fresh_dim(),)), Row((), s.fresh_row())
    leaf = flat_data(12, batch, output, s=s)
    s.add(RowLe(closed_row(3), output))
    s.close([leaf])
    assert (s.row(batch), s.row(output)) == (closed_row(4), closed_row(3))
