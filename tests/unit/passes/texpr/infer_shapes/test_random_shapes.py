"""On random programs and constraints, closed shapes satisfy all that is demanded, in whatever order."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.shape_programs import Program, holds

from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict, ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import (
    EMPTY_ROW,
    Constraint,
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
    RowLe,
    RowVar,
    Shape,
    closed_row,
)

sizes = st.sampled_from([1, 2, 3])
rows = st.lists(sizes, max_size=2)
maybe_rows = st.none() | rows
SPECS_OF_ONE = [
    "...|...->... => ...|...->...",
    "...|...->... => 0",
    "...|...a => ...|a",
    "a... => ...a",
    "aa=>a",
]
SPECS_OF_TWO = [
    "...|a...;...|b... => ...|ab",
    "ij;jk=>ik",
    "...|...i;...|...i => ...|...",
    "a...;...b => ab...",
]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    p = Program()
    p.data(draw(rows), draw(st.just([]) | rows), draw(rows))
    for _ in range(draw(st.integers(1, 3))):
        p.param("p", draw(maybe_rows), draw(maybe_rows), draw(st.just([]) | rows))
    p.constant()
    for _ in range(draw(st.integers(1, 7))):
        a, b = (draw(st.sampled_from(p.shapes)) for _ in range(2))
        match draw(
            st.sampled_from(["pointwise"] * 3 + ["compose"] * 2 + ["unary", "transpose", "slice", "1", "2"])
        ):
            case "pointwise":
                p.pointwise(a, b)
            case "compose":
                p.compose(a, b)
            case "unary":
                p.pointwise(a)
            case "transpose":
                p.transpose(a)
            case "slice":
                p.slice(a)
            case "1":
                p.einsum(draw(st.sampled_from(SPECS_OF_ONE)), a)
            case _:
                p.einsum(draw(st.sampled_from(SPECS_OF_TWO)), a, b)
    return p


def outcome(p: Program, order: list[int] | None = None, look: bool = False) -> object:
    """The final shapes, or the class of the error."""
    fresh = Program(p.solver.copy(), p.constraints, p.leaves, p.shapes)
    try:
        return fresh.solve(order, look).results()
    except ShapeInferenceError as error:
        return ShapeConflict if isinstance(error, ShapeConflict) else type(error)


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.randoms(use_true_random=False))
def test_order_and_looking_change_nothing(p: Program, rng: random.Random):
    expected = outcome(p)
    assert outcome(p, look=True) == expected
    for _ in range(3):
        assert outcome(p, rng.sample(range(len(p.constraints)), len(p.constraints))) == expected


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_final_shapes_satisfy_all_constraints(p: Program):
    try:
        p.solve()
    except ShapeInferenceError:
        return
    assert all(row.is_closed for shape in p.results() for row in (shape.batch, shape.input, shape.output))
    assert all(holds(constraint, p.solver) for constraint in p.constraints)


@given(st.lists(st.lists(sizes, max_size=4), min_size=1, max_size=4))
def test_pointwise_broadcasts_as_numpy_does(operands: list[list[int]]):
    p = Program()
    result = p.pointwise(*(p.data(output=axes) for axes in operands))
    try:
        expected = np.broadcast_shapes(*map(tuple, operands))
    except ValueError:
        with pytest.raises(ShapeConflict):
            p.solve()
    else:
        p.solve()
        assert p.solver.row(result.output) == closed_row(*expected)


@given(st.lists(sizes, max_size=3), st.lists(sizes, max_size=3), st.data())
def test_equations_between_rows_unify_words(first: list[int], second: list[int], data: st.DataObject):
    """A part of a word, cut out in two ways, becomes two variables: their values are found again."""
    s = Solver()
    word = [Dim(size) for size in first + second]
    values: dict[RowVar, list[Dim]] = {}

    def cut() -> Row:
        start = data.draw(st.integers(0, len(word)))
        end = data.draw(st.integers(start, len(word)))
        var = s.fresh_row()
        values[var] = word[start:end]
        leading: list[DimTerm] = [*word[:start]]
        return Row(tuple(leading), var, tuple(word[end:]))

    a, b = cut(), cut()
    s.add(RowEq(a, b))
    s.add(*(RowEq(Row((), var), Row((), None, tuple(value))) for var, value in values.items()))
    assert s.row(a).axes == s.row(b).axes == tuple(word)


@st.composite
def constraint_sets(draw: st.DrawFn) -> tuple[Solver, list[Constraint], list[Leaf]]:
    """Any constraints over few variables, broadcasting in the middle included."""
    s = Solver()
    row_vars, dim_vars = [s.fresh_row() for _ in range(4)], [s.fresh_dim() for _ in range(3)]
    dim = st.sampled_from([*dim_vars, Dim(1), Dim(2), Dim(3), Dim(3, "rgb")])
    ends = st.lists(dim, max_size=1).map(tuple)
    row = st.builds(Row, ends, st.sampled_from([*row_vars, *row_vars, None]), ends)
    order = st.builds(RowLe, row, row)
    equation = st.builds(RowEq, row, row)
    of_dims = st.builds(DimLe, dim, dim) | st.builds(DimEq, dim, dim)
    factor = st.builds(closed_row, dim) | st.sampled_from(row_vars).map(lambda var: Row(var=var))
    product = st.builds(DimProduct, dim, st.lists(factor, min_size=1, max_size=2).map(tuple), st.just("p"))
    term = st.tuples(st.integers(1, 2), dim)
    of_terms = st.builds(DimSum, dim, st.lists(term, max_size=2).map(tuple), st.integers(0, 2), st.just("s"))
    other = of_dims | st.builds(DimAtLeast, dim, st.integers(1, 3)) | product | of_terms
    constraints: list[Constraint] = [*draw(st.lists(order | order | equation | other, max_size=8))]
    leaves = [
        Leaf(Shape(EMPTY_ROW, EMPTY_ROW, Row((), var)), kind, str(var))
        for var in row_vars
        if (kind := draw(st.none() | st.sampled_from(LeafKind))) is not None
    ]
    return s, constraints, leaves


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(constraint_sets())
def test_closed_shapes_satisfy_any_constraints(given_set: tuple[Solver, list[Constraint], list[Leaf]]):
    solver, constraints, leaves = given_set
    p = Program(solver, constraints, leaves)
    try:
        p.solve()
    except ShapeInferenceError:
        return
    assert all(holds(constraint, solver) for constraint in constraints)


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(constraint_sets(), st.randoms(use_true_random=False))
def test_order_of_any_constraints_changes_no_shape(
    given_set: tuple[Solver, list[Constraint], list[Leaf]], rng: random.Random
):
    solver, constraints, leaves = given_set
    p = Program(solver, constraints, leaves, [leaf.shape for leaf in leaves])
    expected = outcome(p)
    for _ in range(3):
        found = outcome(p, rng.sample(range(len(constraints)), len(constraints)))
        # Where a parameter is missing and sizes clash too, either may be told first.
        assert found == expected or not (isinstance(found, list) or isinstance(expected, list))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(constraint_sets())
def test_constraints_may_be_added_at_once(given_set: tuple[Solver, list[Constraint], list[Leaf]]):
    solver, constraints, leaves = given_set

    def closed(add: Callable[[Solver], None]) -> list[Shape] | None:
        own = solver.copy()
        try:
            add(own)
            own.close(leaves)
        except ShapeInferenceError:
            return None
        return [own.shape(leaf.shape) for leaf in leaves]

    one_by_one = closed(lambda own: own.add(*constraints))
    assert closed(lambda own: own.add_together(constraints)) == one_by_one


def test_of_constraints_that_are_added_at_once_none_stays_if_they_clash():
    solver = Solver()
    row = Row(var=solver.fresh_row())
    with pytest.raises(ShapeConflict):
        solver.add_together([RowEq(row, closed_row(2)), RowEq(row, closed_row(3))])
    assert solver.row(row) == row
    solver.add(RowEq(row, closed_row(4)))
    assert solver.row(row) == closed_row(4)
