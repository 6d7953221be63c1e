"""The solver as a data structure: its conflicts, what it takes back, its copies, and its work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from support.shape_programs import Program, moons

from ocannl.passes.texpr.infer_shapes.errors import MissingDimension, ShapeConflict
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import Dim, DimEq, Row, RowEq, RowLe, closed_row


def test_conflict_says_what_clashes_and_why():
    s = Solver()
    a, b, c = (Row((), s.fresh_row()) for _ in range(3))
    s.add(RowEq(a, closed_row(4, 2), "a"), RowEq(b, closed_row(3), "b"), RowLe(c, a, "use of a"))
    with pytest.raises(ShapeConflict) as caught:
        s.add(RowLe(c, b, "use of b"))
    error = caught.value
    assert error.origin == "use of b"
    assert isinstance(error.left, Row)
    assert error.left.trailing == (Dim(4), Dim(2))
    assert (error.right, error.left_axis, error.right_axis) == (closed_row(3), 1, 0)
    assert set(error.left_because) == {"use of a", "a"}
    assert error.right_because == ("b",)


def test_failed_additions_leave_nothing_behind():
    s = Solver()
    rho, dim = Row((), s.fresh_row()), s.fresh_dim()
    with pytest.raises(ShapeConflict):
        s.add(RowEq(rho, closed_row(dim)), DimEq(dim, Dim(2)), DimEq(dim, Dim(3)))
    assert (s.row(rho), s.dim(dim)) == (rho, dim)


def test_attempts_are_taken_back_as_a_whole():
    s = Solver()
    rho = Row((), s.fresh_row())

    def interrupted() -> None:
        with s.attempt():
            s.add(RowEq(rho, closed_row(2)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert s.row(rho) == rho


def test_a_constraint_may_be_added_again():
    s = Solver()
    rho = Row((), s.fresh_row())
    order, clash = RowLe(rho, closed_row(2)), RowEq(rho, closed_row(3))
    s.add(order, order)
    for _ in range(2):
        with pytest.raises(ShapeConflict):
            s.add(clash, order)
    s.add(order, RowEq(rho, closed_row(5, 2)))
    assert s.row(rho) == closed_row(5, 2)


def test_failed_closing_leaves_nothing_behind():
    p, t = moons(None, [16])
    with pytest.raises(MissingDimension):
        p.solve()
    before = p.results()
    with pytest.raises(MissingDimension):
        p.solver.close(p.leaves)
    assert p.results() == before
    p.solver.add(RowEq(t["b1"].output, closed_row(16)))
    p.solver.close(p.leaves)
    assert p.show(t["w2"]) == "|16->16"


def test_copies_are_independent():
    s = Solver()
    rho = Row((), s.fresh_row())
    other = s.copy()
    other.add(RowEq(rho, closed_row(2)))
    assert (s.row(rho), other.row(rho)) == (rho, closed_row(2))


def calls_of(run: Callable[[], object]) -> int:
    """How many functions, of Python and of C, are called."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def calls_for_layers(layers: int) -> int:
    """The calls that it takes to solve a transformer of some layers."""
    p = Program()
    h = p.data([8, 32], output=[64])
    for _ in range(layers):
        q, k, v = (p.compose(p.param(output=[4, 16]), h) for _ in range(3))
        scores = p.pointwise(p.einsum("bs|hd;bt|hd=>bs|t->h", q, k))
        read = p.einsum("bs|t->h;bt|he=>bs|he", scores, v)
        h = p.pointwise(h, p.pointwise(p.compose(p.param(), read), p.param()))
        up = p.pointwise(p.pointwise(p.compose(p.param(), h), p.param(output=[256])), p.constant())
        h = p.pointwise(h, p.compose(p.param(), up))
    calls = calls_of(p.solve)
    assert p.show(h) == "8 32|->64"
    return calls


def test_the_work_grows_with_the_program():
    """Far below what anything quadratic would take."""
    assert calls_for_layers(30) < 3.5 * calls_for_layers(10)


def test_a_chain_of_numbers_closes_with_as_much_work_for_each():
    """All of them get no axes in one round of closing."""

    def calls(length: int) -> int:
        s = Solver()
        rows = [Row((), s.fresh_row()) for _ in range(length)]
        s.add(RowLe(rows[0], closed_row()), *map(RowLe, rows[1:], rows))
        count = calls_of(lambda: s.close([]))
        assert {*map(s.row, rows)} == {closed_row()}
        return count

    assert calls(200) < 2.5 * calls(100)


def test_known_sizes_of_an_operand_are_the_dimensions_of_its_result():
    s = Solver()
    row, size = Row((), s.fresh_row()), s.fresh_dim()
    s.add(DimEq(size, Dim(3)), RowLe(row, closed_row(Dim(1), size, Dim(2))))
    before = s.fresh_dim()
    s.add(RowLe(row, closed_row(5, 3, 2)))
    assert s.row(row).axes == (Dim(5), Dim(3), Dim(2))
    assert before.id == size.id + 2, "only the axis that broadcasts has a variable of its own"
