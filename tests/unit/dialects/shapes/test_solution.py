"""Values of variables, told by final shapes."""

import pytest

from ocannl.dialects.shapes.shape import Dim, DimVar, Row, RowVar, Shape
from ocannl.dialects.shapes.solution import Solution

A, B, C = (Dim(size) for size in (2, 3, 5))


def shape(output: Row) -> Shape:
    return Shape(Row(), Row(), output)


def final(*axes: Dim, leading: int = 0) -> Shape:
    return shape(Row(axes[:leading], None, axes[leading:]))


@pytest.mark.parametrize(
    ("written", "axes", "leading", "gives"),
    [
        (Row((A,), RowVar(1), (C,)), (A, C), 1, True),
        (Row((A,), RowVar(1), (C,)), (A, B, C), 1, True),
        (Row((A,), RowVar(1), (C,)), (A, B), 1, False),
        (Row((A,), RowVar(1), (A,)), (A,), 1, False),
        (Row((A,), None, (DimVar(1),)), (A, B), 1, True),
        (Row((A,), None, (DimVar(1),)), (A, B, C), 1, False),
        (Row((DimVar(1),), None, (DimVar(1),)), (A, B), 1, False),
        (Row((DimVar(1),), None, (DimVar(1),)), (A, A), 1, True),
    ],
)
def test_variables_stand_for_what_is_between(written: Row, axes: tuple[Dim, ...], leading: int, gives: bool):
    assert Solution().gives(shape(written), final(*axes, leading=leading)) is gives


def test_a_variable_stands_for_the_same_everywhere():
    solution = Solution()
    assert solution.gives(shape(Row((), RowVar(1), (DimVar(1),))), final(A, B))
    assert not solution.gives(shape(Row((), RowVar(1), ())), final(B))
    assert solution.gives(shape(Row((), RowVar(1), ())), final(A))
    assert not solution.gives_dim(DimVar(1), A)
    assert solution.gives_dim(DimVar(1), B)
    assert not solution.gives_dim(A, Dim(2, "rgb"))
