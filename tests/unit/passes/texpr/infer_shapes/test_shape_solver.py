"""The solver infers the shapes that the rules demand, whatever the order of constraints."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.shape_programs import Program, holds

from ocannl.passes.texpr.infer_shapes.errors import (
    MissingDimension,
    RankCycle,
    ShapeConflict,
    ShapeInferenceError,
)
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
    TotalElements,
    closed_row,
)

# Programs.


def moons(b1: list[int] | None, b2: list[int] | None) -> tuple[Program, dict[str, Shape]]:
    p = Program()
    x = p.slice(p.data([80, 10], output=[2]), 80)
    cls = p.slice(p.data([80, 10], output=[1]), 80)
    t = {"w1": p.param("w1"), "b1": p.param("b1", output=b1), "w2": p.param("w2")}
    t |= {"b2": p.param("b2", output=b2), "w3": p.param("w3"), "one": p.constant(), "ten": p.constant()}
    h1 = p.pointwise(p.pointwise(t["b1"], p.compose(t["w1"], x)))
    h2 = p.pointwise(p.pointwise(t["b2"], p.compose(t["w2"], h1)))
    t["mlp"] = p.compose(t["w3"], h2)
    margin = p.pointwise(p.pointwise(t["one"], p.pointwise(cls, t["mlp"])))
    t["loss"] = p.pointwise(p.einsum("...|... => 0", margin), t["ten"])
    return p, t


def test_moons():
    p, t = moons([16], [16])
    p.solve()
    assert {name: p.show(shape) for name, shape in t.items()} == {
        "w1": "|2->16",
        "b1": "|->16",
        "w2": "|16->16",
        "b2": "|->16",
        "w3": "|16->1",
        "mlp": "10|->1",
        "one": "10|->1",
        "ten": "|->1",
        "loss": "|->1",
    }


@pytest.mark.parametrize(("b1", "b2", "names"), [(None, [16], "w1 b1"), ([16], None, "w2 b2")])
def test_forgotten_hidden_dimension(b1: list[int] | None, b2: list[int] | None, names: str):
    p, _ = moons(b1, b2)
    with pytest.raises(MissingDimension) as caught:
        p.solve()
    assert caught.value.leaf.name in names.split()
    assert caught.value.row_kind == "output"


def test_number_behind_a_matrix():
    p = Program()
    m, two = p.data(input=[3], output=[4]), p.constant()
    result = p.compose(m, two)
    p.solve()
    assert p.show(two) == "|->3"
    assert p.show(result) == "|->4"


def test_number_before_a_matrix():
    p = Program()
    m, two = p.data(input=[3], output=[4]), p.constant()
    result = p.compose(two, m)
    p.solve()
    assert p.show(two) == "|4->"
    assert p.show(result) == "|3->"


def test_uses_that_disagree_on_a_size_leave_1():
    p = Program()
    b = p.param()
    p.pointwise(b, p.data(output=[10]))
    p.pointwise(b, p.data(output=[7]))
    p.solve()
    assert p.show(b) == "|->1"


def test_uses_that_disagree_on_the_rank_leave_the_lower():
    p = Program()
    b = p.param()
    p.pointwise(b, p.data(output=[5, 10]))
    p.pointwise(b, p.data(output=[10]))
    p.solve()
    assert p.show(b) == "|->10"


def test_bias_takes_no_batch_axes():
    p = Program()
    w, b = p.param("w", output=[16]), p.param("b")
    result = p.pointwise(b, p.compose(w, p.data([10], output=[2])))
    p.solve()
    assert p.show(b) == "|->16"
    assert p.show(result) == "10|->16"


def test_demands_reach_leaves_through_open_results():
    p = Program()
    a, b = p.param("a"), p.constant()
    inner = p.pointwise(p.pointwise(a, b))
    p.pointwise(inner, p.data(output=[5, 10]))
    p.solve()
    assert [p.show(shape) for shape in (a, b, inner)] == ["|->5 10"] * 3


def test_a_known_operand_decides_before_uses_do():
    p = Program()
    b = p.param("b")
    inner = p.pointwise(b, p.data(output=[10]))
    p.pointwise(inner, p.data(output=[5, 10]))
    p.solve()
    assert p.show(b) == p.show(inner) == "|->10"


def test_results_are_no_larger_than_their_leaves():
    p = Program()
    b = p.param("b")
    relu = p.pointwise(b)
    p.pointwise(relu, p.data(output=[5, 10]))
    p.pointwise(b, p.data(output=[10]))
    p.solve()
    assert p.show(relu) == "|->10"


def test_transpose_ties_input_to_output():
    p = Program()
    w = p.param("w")
    code = p.compose(w, p.data(output=[7]))
    decoded = p.compose(p.transpose(w), p.pointwise(code, p.param("b", output=[3])))
    p.solve()
    assert p.show(w) == "|7->3"
    assert p.show(decoded) == "|->7"


def test_parameter_used_pointwise_has_no_input_axes():
    p = Program()
    b = p.param("b", output=[3])
    p.pointwise(b, p.constant())
    p.solve()
    assert p.show(b) == "|->3"


def test_matrix_of_which_only_numbers_are_known_misses_its_input():
    p = Program()
    p.compose(p.param("w", output=[3]), p.constant())
    with pytest.raises(MissingDimension) as caught:
        p.solve()
    assert caught.value.row_kind == "input"


def test_named_axis_that_nothing_determines():
    p = Program()
    p.einsum("ij => i", p.param("w"))
    with pytest.raises(MissingDimension) as caught:
        p.solve()
    assert (caught.value.row_kind, caught.value.axis) == ("output", 0)


@pytest.mark.parametrize(
    ("spec", "operands", "expected"),
    [
        ("ij;jk => ik", [[2, 3], [3, 4]], "|->2 4"),
        ("ii => i", [[3, 3]], "|->3"),
        ("a3 => a", [[2, 4]], "|->2"),
        ("_a => a", [[9, 2]], "|->2"),
        ("a...;b...=> ab...", [[2, 7, 8], [3, 7, 8]], "|->2 3 7 8"),
        ("a...b => b...a", [[2, 7, 8, 3]], "|->3 7 8 2"),
    ],
)
def test_einsum(spec: str, operands: list[list[int]], expected: str):
    p = Program()
    result = p.einsum(spec, *(p.data(output=axes) for axes in operands))
    p.solve()
    assert p.show(result) == expected


@pytest.mark.parametrize(
    ("spec", "operands"),
    [
        ("ij;jk => ik", [[2, 3], [4, 5]]),
        ("ii => i", [[3, 4]]),
        ("a3 => a", [[2, 3]]),
        ("ab => a", [[2]]),
        ("a...b => b", [[2]]),
        ("...;... => ...", [[2, 3], [3]]),
    ],
)
def test_einsum_that_does_not_fit(spec: str, operands: list[list[int]]):
    p = Program()
    p.einsum(spec, *(p.data(output=axes) for axes in operands))
    with pytest.raises(ShapeConflict):
        p.solve()


def test_slice_takes_the_leftmost_batch_axis():
    p = Program()
    x = p.data([80, 10], output=[2])
    result = p.slice(x)
    p.solve()
    assert p.show(result) == "10|->2"


# Terms.


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


# The solver itself.


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
    assert calls_for_layers(60) < 3.5 * calls_for_layers(20)


# Random programs.

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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.randoms(use_true_random=False))
def test_order_and_looking_change_nothing(p: Program, rng: random.Random):
    expected = outcome(p)
    assert outcome(p, look=True) == expected
    for _ in range(3):
        assert outcome(p, rng.sample(range(len(p.constraints)), len(p.constraints))) == expected


@settings(max_examples=32, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(constraint_sets())
def test_closed_shapes_satisfy_any_constraints(given_set: tuple[Solver, list[Constraint], list[Leaf]]):
    solver, constraints, leaves = given_set
    p = Program(solver, constraints, leaves)
    try:
        p.solve()
    except ShapeInferenceError:
        return
    assert all(holds(constraint, solver) for constraint in constraints)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
