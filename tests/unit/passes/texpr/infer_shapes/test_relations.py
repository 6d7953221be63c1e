"""Arithmetic between dimensions is solved in whichever direction the knowns allow."""

from __future__ import annotations

import itertools

import pytest

from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import (
    Dim,
    DimAtLeast,
    DimEq,
    DimLe,
    DimProduct,
    DimSum,
    DimTerm,
    Leaf,
    LeafKind,
    Row,
    RowEq,
    Shape,
    TotalElements,
    closed_row,
)

Size = int | None


def dims(solver: Solver, *sizes: Size) -> list[DimTerm]:
    return [solver.fresh_dim() if size is None else Dim(size) for size in sizes]


@pytest.mark.parametrize("unknown", range(3))
def test_a_product_gives_any_one_of_its_sizes(unknown: int):
    sizes: list[Size] = [24, 4, 6]
    sizes[unknown] = None
    s = Solver()
    whole, a, b = found = dims(s, *sizes)
    s.add(DimProduct(whole, (closed_row(a), closed_row(b)), "a&b"))
    assert [s.dim(dim) for dim in found] == [Dim(24), Dim(4), Dim(6)]


def test_a_product_waits_for_its_rows():
    s = Solver()
    row, (whole, c) = Row(var=s.fresh_row()), dims(s, 24, None)
    s.add(DimProduct(whole, (row, closed_row(c)), "..r..&c"))
    assert s.dim(c) == c
    s.add(RowEq(row, closed_row(2, 3)))
    assert s.dim(c) == Dim(4)


def test_equal_factors_are_a_root():
    s = Solver()
    (side,) = dims(s, None)
    s.add(DimProduct(Dim(9), (closed_row(side, side),), "a&a"))
    assert s.dim(side) == Dim(3)


@pytest.mark.parametrize(
    ("whole", "factors", "reason"),
    [
        (10, (4, None), "the size 10 of `a&b` is not divisible by 4"),
        (10, (4, 2), "makes 8"),
        (3, (0, None), "makes 0"),
    ],
)
def test_products_that_do_not_fit(whole: int, factors: tuple[Size, ...], reason: str):
    s = Solver()
    with pytest.raises(ShapeConflict, match=reason):
        s.add(DimProduct(Dim(whole), (closed_row(*dims(s, *factors)),), "a&b"))


@pytest.mark.parametrize("whole_first", [False, True])
@pytest.mark.parametrize(
    ("whole", "axes"),
    [
        (Dim(3, "rgb"), [Dim(3, "hsv")]),
        (Dim(3, "rgb"), [Dim(3)]),
        (Dim(3), [Dim(3, "rgb")]),
        (Dim(6, "rgb"), [Dim(2, "hsv"), Dim(3)]),
        (Dim(9, "rgb"), [Dim(3, "rgb"), Dim(3, "rgb")]),
    ],
)
def test_the_elements_of_a_row_have_its_basis(whole: Dim, axes: list[Dim], whole_first: bool):
    """Whichever is known first."""
    s = Solver()
    size, *unknown = dims(s, None, *(None for _ in axes))
    s.add(DimProduct(size, (closed_row(*unknown),), "..r.."))
    known = [DimEq(dim, axis) for dim, axis in zip((size, *unknown), (whole, *axes), strict=True)]
    with pytest.raises(ShapeConflict, match="rgb"):
        s.add(*(known if whole_first else known[::-1]))


def test_an_unknown_axis_has_the_basis_that_is_left():
    s = Solver()
    a, b, c = dims(s, None, None, None)
    s.add(DimProduct(Dim(6, "rgb"), (closed_row(2, a),), "..r.."))
    s.add(DimProduct(Dim(6, "rgb"), (closed_row(Dim(3, "rgb"), b),), "..r.."))
    assert [s.dim(a), s.dim(b)] == [Dim(3, "rgb"), Dim(2)]
    with pytest.raises(ShapeConflict, match=r"in `\.\.r\.\.` no axis has the basis of 9:rgb"):
        s.add(DimProduct(Dim(9, "rgb"), (closed_row(c, c),), "..r.."))


def test_axes_with_a_basis_have_no_product():
    s = Solver()
    (a,) = dims(s, None)
    with pytest.raises(ShapeConflict, match="takes sizes without a basis, found 6:rgb"):
        s.add(DimProduct(Dim(6, "rgb"), (closed_row(2), closed_row(a)), "h&w"))


def window(s: Solver, whole: Size, over: Size, kernel: Size) -> tuple[DimSum, list[DimTerm]]:
    """`2*o <+ 3*k`: 2 * (o - 1) + 1 + 3 * (k - 1) positions."""
    size, o, k = found = dims(s, whole, over, kernel)
    return DimSum(size, ((3, k), (2, o)), -4, "2*o <+ 3*k", 1, window=True), found


@pytest.mark.parametrize("unknown", range(3))
def test_a_window_gives_any_one_of_its_sizes(unknown: int):
    sizes: list[Size] = [11, 3, 3]
    sizes[unknown] = None
    s = Solver()
    constraint, found = window(s, *sizes)
    s.add(constraint)
    assert [s.dim(dim) for dim in found] == [Dim(11), Dim(3), Dim(3)]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((12, None, 3), "leaves 5, which does not divide by 2"),
        ((6, None, 3), "a window of size 7 does not fit in an axis of size 6"),
        ((12, 3, 3), "makes 11, the axis has size 12"),
        ((12, 3, None), "does not divide by 3"),
    ],
)
def test_windows_that_do_not_fit(sizes: tuple[Size, Size, Size], reason: str):
    s = Solver()
    constraint, _ = window(s, *sizes)
    with pytest.raises(ShapeConflict, match=reason):
        s.add(constraint)


def joined(s: Solver, whole: Size, *parts: Size) -> tuple[DimTerm, list[DimTerm], DimSum]:
    (size,), found = dims(s, whole), dims(s, *parts)
    return size, found, DimSum(size, tuple((1, dim) for dim in found), 2, "2^a^b")


def test_a_concatenation_gives_its_size_and_the_last_part():
    s = Solver()
    whole, _, constraint = joined(s, None, 3, 4)
    other, parts, again = joined(s, 9, 3, None)
    s.add(constraint, again, DimEq(whole, other))
    assert s.dim(whole) == Dim(9)
    assert s.dim(parts[1]) == Dim(4)


def test_a_droppable_part_is_empty_in_the_end():
    s = Solver()
    whole, a, b = dims(s, None, None, None)
    s.add(DimSum(whole, ((1, a), (1, b)), 0, "a^b", droppable=(b,)), DimEq(a, Dim(3)))
    s.close([])
    assert [s.dim(dim) for dim in (whole, a, b)] == [Dim(3), Dim(3), Dim(0)]


def test_parts_of_which_positions_are_used_are_in_the_whole():
    """Whatever it is used with: a size of 1 broadcasts to it, and one that is less is an error."""
    for order in itertools.permutations(range(4)):
        s = Solver()
        joined_parts, inner, a, b, c = dims(s, *[None] * 5)
        found = [
            DimSum(inner, ((1, a), (1, b)), 0, "a^b"),
            DimSum(joined_parts, ((1, inner), (1, c)), 0, "ab^c"),
            DimAtLeast(a, 1),
            DimAtLeast(b, 2),
        ]
        s.add(*(found[number] for number in order))
        used = s.copy()
        (result,) = dims(used, None)
        used.add(DimLe(result, joined_parts), DimLe(result, Dim(1)), DimAtLeast(c, 1))
        used.close([])
        assert [used.dim(dim) for dim in (result, inner, a, b, c)] == [Dim(4), Dim(3), Dim(1), Dim(2), Dim(1)]
        with pytest.raises(ShapeConflict, match=r"`ab\^c` takes 3 positions or more, the axis has size 2"):
            s.add(DimEq(joined_parts, Dim(2)))


def test_the_positions_of_a_known_whole_are_in_its_parts():
    s = Solver()
    a, b, c = dims(s, 2, None, None)
    s.add(DimSum(Dim(4), ((1, a), (1, b), (1, c)), 0, "a^b^c"), DimAtLeast(b, 1))
    for used in (b, c):
        with pytest.raises(
            ShapeConflict, match=r"`a\^b\^c` takes [45] positions or more, the axis has size 4"
        ):
            s.add(DimAtLeast(used, 2), DimAtLeast(c, 1))
    s.close([])
    assert [s.dim(b), s.dim(c)] == [Dim(1), Dim(1)]


def test_factors_of_which_positions_are_used():
    s = Solver()
    whole, a, result = dims(s, None, None, None)
    s.add(DimProduct(whole, (closed_row(a, 3),), "a&b"), DimAtLeast(a, 2), DimLe(result, whole))
    s.close([])
    assert s.dim(result) == Dim(6)


def test_an_axis_that_would_hold_itself_and_more():
    s = Solver()
    a, b = dims(s, None, None)
    s.add(DimSum(a, ((1, b),), 1, "1^b"), DimSum(b, ((1, a),), 1, "1^a"))
    with pytest.raises(ShapeConflict):
        s.close([])


def test_flat_data_have_the_positions_that_are_used():
    s = Solver()
    rows, columns = dims(s, None, None)
    s.add(TotalElements((closed_row(rows, columns),), 6), DimAtLeast(rows, 2))
    s.close([Leaf(Shape(Row(), Row(), closed_row(rows, columns)), LeafKind.DATA, "flat")])
    assert [s.dim(rows), s.dim(columns)] == [Dim(2), Dim(3)]


def test_open_factors_of_a_known_size_are_not_guessed():
    s = Solver()
    a, b = dims(s, None, None)
    s.add(DimProduct(Dim(12), (closed_row(a), closed_row(b)), "a&b"))
    with pytest.raises(ShapeConflict, match="nothing tells the sizes in `a&b` apart: fix one by its name"):
        s.close([])


def test_open_factors_of_1():
    s = Solver()
    a, b = dims(s, None, None)
    s.add(DimProduct(Dim(1), (closed_row(a), closed_row(b)), "a&b"))
    s.close([])
    assert [s.dim(dim) for dim in (a, b)] == [Dim(1), Dim(1)]


def test_what_nothing_determines_is_least():
    s = Solver()
    whole, a = dims(s, None, None)
    s.add(DimSum(whole, ((1, a),), 3, "a^3"))
    s.close([Leaf(Shape(Row(), Row(), closed_row(a)), LeafKind.CONSTANT, "c")])
    assert s.dim(whole) == Dim(4)


def test_sizes_that_nothing_tells_apart():
    s = Solver()
    a, b = dims(s, None, None)
    for left, right in ((a, b), (b, a)):
        s.add(DimProduct(Dim(12), (closed_row(left), closed_row(right)), "a&b"))
    with pytest.raises(ShapeConflict, match="nothing tells the sizes in `a&b` apart"):
        s.close([])
