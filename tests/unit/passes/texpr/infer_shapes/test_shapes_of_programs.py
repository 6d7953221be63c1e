"""The shapes that given programs have, or what their shapes lack."""

from __future__ import annotations

import pytest
from support.shape_programs import Program, moons

from ocannl.passes.texpr.infer_shapes.errors import MissingDimension, ShapeConflict


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
