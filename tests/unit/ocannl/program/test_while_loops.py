"""Loops with a condition, and branches: values, derivatives, and what runs."""

from __future__ import annotations

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc

A = np.array([2.0, 9.0, 0.25])


def values_of(*tensors: oc.Tensor) -> list[Array]:
    ctx = oc.Context()
    code = sum((tensor.forward for tensor in tensors), oc.Code())
    ctx.init_params(code)
    ctx.compile(code)()
    return [np.array(ctx[tensor]) for tensor in tensors]


def root(a: oc.Tensor, most: int = 50) -> tuple[oc.Tensor, oc.Tensor]:
    """The square root by Newton's method, and the number of steps."""

    def body(state: tuple[oc.Tensor, oc.Tensor]) -> tuple[oc.Tensor, oc.Tensor]:
        return 0.5 * (state[0] + a / state[0]), state[1] + 1

    def is_far(state: tuple[oc.Tensor, oc.Tensor]) -> oc.Tensor:
        return oc.max(abs(state[0] * state[0] - a)) > 1e-9

    return oc.while_loop(is_far, body, (a * 0 + 1.0, 0), most=most)


def test_derivatives_go_through_the_iterations_that_ran() -> None:
    a = oc.param("a", A)
    found, steps = root(a)
    gradient = oc.grad(found.sum(), a)
    along = oc.jvp(found, a, oc.data(np.ones(3)))
    values = values_of(found, steps, gradient, oc.grad(gradient.sum(), a), along)
    np.testing.assert_allclose(values[0], np.sqrt(A), rtol=1e-12)
    assert 4 < values[1] < 12
    np.testing.assert_allclose(values[2], 0.5 / np.sqrt(A), rtol=1e-9)
    np.testing.assert_allclose(values[3], -0.25 * A**-1.5, rtol=1e-6)
    np.testing.assert_allclose(values[4], 0.5 / np.sqrt(A), rtol=1e-9)


@pytest.mark.exhaustive
def test_nothing_comes_of_iterations_that_did_not_run() -> None:
    """Zeros are saved of them, where slopes of `log` and `sqrt` are infinite."""
    a, v = oc.param("a", A), oc.data(np.array([1.0, 2.0, -1.0]))
    looped = oc.while_loop(lambda s: s[1] < 1, lambda s: (oc.log(s[0]) / a, s[1] + 1), (a * 1, 0), most=3)[0]
    chosen = oc.cond(a.sum() > 0, lambda x: oc.log(x) / a, lambda x: oc.sqrt(oc.log(a * x)), a)
    gradients = [oc.grad(x.sum(), a) for x in (oc.log(a) / a, looped, chosen)]
    second = [oc.grad((g * v).sum(), a) for g in gradients]
    along = [oc.jvp(g, a, v) for g in gradients]
    third = [oc.grad((s * v).sum(), a) for s in second]
    for wanted, *found in (values_of(*kind) for kind in (second, along, third)):
        assert np.isfinite(wanted).all()
        for one in found:
            np.testing.assert_allclose(one, wanted, rtol=1e-9)


@pytest.mark.parametrize(("begin", "most", "wanted"), [(3.0, 4, 48.0), (3.0, 0, 3.0), (200.0, 4, 200.0)])
def test_a_loop_ends_by_its_condition_or_its_bound(begin: float, most: int, wanted: float) -> None:
    start = oc.param("start", begin, output=[])
    end = oc.while_loop(lambda s: s < 100, lambda s: s * 2, start, most=most)
    assert end.label == "while_loop"
    found = values_of(end, oc.grad(end, start))
    assert found == [wanted, wanted / begin]


def test_one_branch_runs() -> None:
    a, flag = oc.param("a", A), oc.data(np.array(1.0), label="flag")
    found = oc.cond(flag, lambda v: {"y": oc.log(v), "n": 2}, lambda v: {"y": v * v, "n": 3}, a)
    assert found["y"].label == "cond"
    gradient = oc.grad(found["y"].sum(), a)
    ctx = oc.Context()
    step = ctx.compile(found["y"].forward + found["n"].forward + gradient.forward)
    ctx.init_params(gradient.forward)
    for value, y, slope, n in ((1.0, np.log(A), 1 / A, 2), (0.0, A * A, 2 * A, 3)):
        ctx[flag] = value
        step()
        np.testing.assert_allclose(ctx[found["y"]], y, rtol=1e-6)
        np.testing.assert_allclose(ctx[gradient], slope, rtol=1e-6)
        assert ctx[found["n"]] == n
    text = found["y"].forward.ir("assign")
    caller = text[text.rindex("assign.routine") :]
    assert "log(" in text
    assert "log(" not in caller
    assert "mul(" not in caller


@pytest.mark.parametrize(
    ("f", "g", "error"),
    [
        ((3,), (2, 3), oc.ShapeError),
        ((2, 3), (3,), oc.ShapeError),
        ((3,), (1,), oc.ShapeError),
        ((3,), (), oc.ShapeError),
        ((3,), "int32", oc.PrecisionError),
        ("float16", "float32", oc.PrecisionError),
    ],
)
def test_branches_have_one_type(
    f: tuple[int, ...] | str, g: tuple[int, ...] | str, error: type[oc.OcannlError]
) -> None:
    def branch(kind: tuple[int, ...] | str) -> oc.Tensor:
        shape, dtype = ((3,), kind) if isinstance(kind, str) else (kind, "float64")
        return oc.data(np.ones(shape, dtype)) * 2

    x, y = branch(f), branch(g)
    with pytest.raises(
        error, match=r"test_while_loops.py:\d+: both branches of a condition give the same, and f gives"
    ):
        oc.cond(oc.data(np.array(1.0)), lambda: x, lambda: y)


@pytest.mark.parametrize("flag", [0.0, 1.0])
def test_a_number_takes_the_type_of_the_other_branch(flag: float) -> None:
    x = oc.data(np.ones(3))
    y = oc.cond(oc.data(np.array(flag)), lambda: 0.0, lambda: x * 2)
    ctx = oc.Context()
    ctx.compile(y.forward)()
    np.testing.assert_array_equal(ctx[y], np.full(3, 0.0 if flag else 2.0))
    assert ctx[y].dtype == np.float64


def test_branches_have_one_form() -> None:
    flag, one = oc.data(np.array(1.0)), oc.constant(1.0)
    others = {"result.0": lambda: (one,), "nothing": lambda: None}
    for name, other in others.items():
        words = f"both functions have one form of results: f gives {name}, g gives result"
        with pytest.raises(oc.ArgumentError, match=words):
            oc.cond(flag, other, lambda: one)


def test_a_result_of_several_is_told_by_its_number() -> None:
    x = oc.data(np.ones((2, 3)), axes="bo")
    with pytest.raises(oc.ShapeError, match=r"f gives 2\|3 as result 1, g gives 3"):
        oc.cond(oc.data(np.array(1.0)), lambda: (x, x), lambda: (x, x.sum(0)))
