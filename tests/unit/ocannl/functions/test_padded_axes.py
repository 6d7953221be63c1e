"""Padded axes of functions: one routine for several sizes, with the values of the real rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train
from ocannl.functions.padding import marked_axes, padded_size

Array = NDArray[Any]
RNG = np.random.default_rng(0)
ROWS = {"x": "*bo", "y": "*b"}
REDUCED: dict[str, Callable[[Any], tuple[Any, Callable[[Array], Any]]]] = {
    "sum": lambda x: (oc.sum(x), np.sum),
    "columns": lambda x: (x.sum("batch"), lambda a: a.sum(0)),
    "product": lambda x: (x.prod(0), lambda a: a.prod(0)),
    "max": lambda x: (oc.max(x), np.max),
    "min": lambda x: (x.min(0), lambda a: a.min(0)),
    "any": lambda x: ((x > 1).any(), lambda a: (a > 1).any()),
    "all": lambda x: ((x > -9).all(0), lambda a: (a > -9).all(0)),
    "argmax": lambda x: (x.argmax(0), lambda a: a.argmax(0)),
    "argmin of all": lambda x: (x.argmin(), np.argmin),
    "integers": lambda x: (oc.max(oc.cast(x * 4, np.int32)), lambda a: (a * 4).astype(np.int32).max()),
    "einsum": lambda x: (oc.einsum("b | o; b | p => o, p", x, x), lambda a: a.T @ a),
    "composition": lambda x: (
        oc.einsum("b | o => b -> o", x) @ oc.einsum("b | o => o -> b", x),
        lambda a: a.T @ a,
    ),
}


def test_a_last_partial_batch_shares_the_signature():
    """Sizes up to the same power of two share a routine; results are cut to the real size."""
    w = oc.param("w", RNG.normal(size=(3, 2)))

    @oc.function(axes={"x": "*bo"})
    def apply(x: oc.Tensor) -> Any:
        return oc.mean(oc.exp(w @ x)), w @ x, oc.var(w @ x, "batch")

    for size in (16, 13, 9, 16):
        x = RNG.normal(size=(size, 2))
        mean, y, variance = apply(x)
        expected = x @ w.numpy().T
        assert y.shape == (size, 3)
        np.testing.assert_allclose(mean, np.exp(expected).mean(), rtol=1e-14)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_allclose(variance, expected.var(0), rtol=1e-13)
    assert [str(signature) for signature in apply.signatures()] == ["x: float64[*16, 2]"]


@pytest.mark.exhaustive
def test_training_is_that_of_real_rows():
    """Losses, metrics, batch statistics, gradients and updates are those without padding."""

    def made(axes: dict[str, str]) -> Any:
        norm, model = nn.batch_norm1d(), nn.mlp(hid_dims=[8], out_dim=3)
        optimizer = train.adamw(lr=0.01, clip_norm=1.0)

        @oc.function(ctx=oc.Context.cpu(), axes=axes)
        def step(x: oc.Tensor, y: oc.Tensor) -> Any:
            scores = norm(model(x), train_step=0)
            loss = nn.cross_entropy(scores, y)
            optimizer.step(loss)
            return {
                "loss": loss,
                "scores": scores,
                "smooth": nn.cross_entropy(scores, y, reduction="sum", label_smoothing=0.1),
                "accuracy": nn.accuracy(scores, y),
                "top": nn.top_k_accuracy(scores, y, k=2),
                "confusion": nn.confusion_matrix(scores, y),
                "f1": nn.f1(scores, y, average="macro"),
                "r2": nn.r2(scores, scores * 1.1),
                "after": norm(model(x)),
            }

        return step

    padded, plain = made(ROWS), made({"y": "b"})
    for size in (13, 5):
        x, y = RNG.normal(size=(size, 2)), RNG.integers(0, 3, size)
        found, expected = padded(x, y), plain(x, y)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-11, err_msg=name)
    assert len(padded.signatures()) == 2


@pytest.mark.parametrize("kind", REDUCED)
def test_other_reductions_need_the_count(kind: str):
    """A reduction is an error at its line, or that of real rows where the function uses the count."""
    reduce = REDUCED[kind]

    def unaware(x: oc.Tensor) -> oc.Tensor:
        return reduce(x)[0]

    def aware(x: oc.Tensor) -> tuple[oc.Tensor, Any]:
        return reduce(x)[0], x.count

    array = RNG.normal(size=(5, 2))
    expected = np.asarray(reduce(oc.data(array))[1](array))
    with pytest.raises(oc.OcannlError, match=r"test_padded_axes.py:\d+: a padded axis of .*oc.mean.*count"):
        oc.function(unaware, axes={"x": "*bo"})(array)
    found, count = oc.function(aware, axes={"x": "*bo"})(array)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert count == 5


def test_reductions_are_those_of_nn_where_its_code_makes_them():
    """A layer that a user passes into a block is the user's, and so is a copy of a function of `nn`."""
    norm = nn.residual(pre_norm=False)

    def softmax(x: oc.Tensor) -> oc.Tensor:
        exps = oc.exp(x)
        return exps / exps.sum("batch", keep=True)

    def inner(x: oc.Tensor) -> oc.Tensor:
        return norm(x, softmax)

    x = RNG.normal(size=(5, 2))
    for body in (softmax, inner):
        with pytest.raises(oc.OcannlError, match="a padded axis of"):
            oc.function(body, axes={"x": "*bo"})(x)
    found, _ = oc.function(lambda x: (softmax(x), x.count), axes={"x": "*bo"})(x)
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(0), rtol=1e-13)
    of_nn = oc.function(nn.softmax(spec="b | ..."), axes={"x": "*bo"})(x)
    np.testing.assert_allclose(of_nn, found, rtol=1e-13)


def test_gradients_of_functions():
    """Derivatives have the real size, are zero nowhere else, and finite where padding might not be."""

    @oc.function(axes={"x": "*bo"})
    def length(x: oc.Tensor) -> oc.Tensor:
        return oc.mean(oc.sqrt(oc.sum(x * x, "output")))

    x = RNG.normal(size=(5, 2))
    expected = x / np.linalg.norm(x, axis=1, keepdims=True) / 5
    value, gradient = length.value_and_grad(x)
    np.testing.assert_allclose(value, np.linalg.norm(x, axis=1).mean(), rtol=1e-14)
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)
    np.testing.assert_allclose(oc.jacobian(length)(x), expected, rtol=1e-13)
    np.testing.assert_allclose(length.jvp(x, np.ones_like(x)), expected.sum(), rtol=1e-13)


def test_several_padded_axes():
    """Axes of different sizes are padded apart; those of one size, of another signature, are one."""

    @oc.function(axes={"ids": "*b*b", "weights": "*b"})
    def total(ids: oc.Tensor, weights: oc.Tensor) -> Any:
        assert isinstance(ids.count, tuple)
        rows, columns = ids.count
        per_row = oc.einsum("b, t | => b |", ids)
        return oc.einsum("b |; b | => ", per_row, weights), rows, columns, per_row

    for rows, columns in ((3, 5), (4, 2), (3, 3)):
        ids, weights = RNG.integers(0, 9, (rows, columns)), RNG.normal(size=rows)
        found = total(ids, weights)
        np.testing.assert_allclose(found[0], (ids.sum(1) * weights).sum(), rtol=1e-13)
        assert found[1:3] == (rows, columns)
        np.testing.assert_array_equal(found[3], ids.sum(1))
    assert len(total.signatures()) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: x[::-1], "part of a padded axis"),
        (lambda x: x[0], "part of a padded axis"),
        (lambda x: x.reshape(-1), "8:x_count"),
        (lambda x: oc.grad(oc.mean(x * x, 1), x), "sum of its gradient"),
        (lambda x: x + oc.zeros((8, 2)), "8:x_count and 8 differ"),
    ],
)
def test_padded_rows_take_no_part_in_anything_else(body: Callable[[Any], Any], message: str):
    """Operations that would read padded rows are errors that name the axis."""
    with pytest.raises(oc.OcannlError, match=message):
        oc.function(body, axes={"x": "*bo"})(np.ones((3, 2)))


CLASHES: dict[str, Callable[[Any], Any]] = {
    "another size": lambda x: x + oc.zeros((3, 2)),
    "windows": lambda x: nn.conv1d(out_channels=2)(x),
    "sort": lambda x: oc.sort(x, 0),
    "cumsum": lambda x: oc.cumsum(x, 0),
    "roll": lambda x: oc.roll(x, 1, 0),
    "rearrange": lambda x: oc.rearrange(x, "(a b) c -> a b c", b=2),
    "reshape": lambda x: x.reshape(2, -1),
    "slice": lambda x: x[1:],
}


@pytest.mark.parametrize("kind", CLASHES)
def test_what_has_no_padded_axes_says_so(kind: str):
    with pytest.raises(oc.OcannlError, match=r"rows that are not real.*; without `\*` .* none is padded$"):
        oc.function(CLASHES[kind], axes={"x": "*bo"})(np.ones((6, 2)))


def test_other_axes_clash_as_everywhere():
    with pytest.raises(oc.ShapeError, match=r"2 in `x`, 3 in `data`\n(?s:.*)hint: point by point"):
        oc.function(lambda x: x + oc.zeros((1, 3)), axes={"x": "*bo"})(np.ones((6, 2)))


def test_updates_of_memory_are_those_of_real_rows():
    """Accumulation into memory leaves out padded rows too."""
    total = oc.node("total", output=2, init=0.0)

    @oc.function(axes={"x": "*bo"})
    def add(x: oc.Tensor) -> Any:
        oc.accumulate(total, "add", x, spec="b | o => o")
        return x.count

    x = RNG.normal(size=(3, 2)).astype(np.float32)
    add(x)
    add(x[:1])
    np.testing.assert_allclose(total.numpy(), x.sum(0) + x[0], rtol=1e-6)


def test_no_rows_and_lowered_routines():
    """An empty batch has a sum of 0; a lowered function has the sizes of its arguments."""

    @oc.function(axes={"x": "*bo"})
    def both(x: oc.Tensor) -> Any:
        return oc.sum(x), oc.mean(x), x.count

    assert both(np.zeros((0, 2)))[::2] == (0, 0)
    x = RNG.normal(size=(3, 2))
    lowered = both.lower(x)
    both(x)
    lowered.compile()()
    np.testing.assert_allclose(oc.default_context()[lowered.results[1]], x.mean(), rtol=1e-14)


def test_derivatives_of_padded_results():
    """Cotangents are padded as results are, and Jacobians have real rows only."""
    w = oc.param("w", np.array([[1.0, -2.0]]), input=2, output=1, batch=[])

    @oc.function(axes={"x": "*bo"})
    def both(x: oc.Tensor) -> Any:
        return {"square": x * x, "mean": oc.mean(w @ x)}

    x, by = RNG.normal(size=(2, 5, 2))
    found = both.vjp(x, {"square": by, "mean": 3.0})
    np.testing.assert_allclose(found, 2 * x * by + 3 * np.array([1.0, -2.0]) / 5, rtol=1e-13)
    with pytest.raises(oc.ArgumentError, match=r"the shape of its result, \(5, 2\); found \(4, 2\)"):
        both.vjp(x, {"square": by[:4], "mean": 3.0})
    np.testing.assert_allclose(both.jvp(x, by)["square"], 2 * x * by, rtol=1e-13)
    jacobian = oc.jacobian(oc.function(lambda x: oc.sin(x), axes={"x": "*bo"}))(x)
    np.testing.assert_allclose(jacobian.reshape(10, 10), np.diag(np.cos(x).ravel()), rtol=1e-12, atol=1e-15)


def test_marks_of_axes():
    """`*` marks the axis of the next letter; sizes are powers of two from 8 on."""
    assert marked_axes("*bo") == [0]
    assert marked_axes("b|*i->o") == [2]
    assert marked_axes("bo") == []
    assert [padded_size(size) for size in (0, 1, 8, 9, 64, 65)] == [8, 8, 8, 16, 64, 128]
    for letters in ("b*", "*|b", "**b"):
        with pytest.raises(oc.ArgumentError, match="before the letter"):
            oc.function(lambda x: x, axes={"x": letters})
    with pytest.raises(oc.ArgumentError, match="no padded axis"):
        oc.function(lambda x: x / x.count)(np.ones(3))


def test_emulated_gpu():
    """The same on a GPU, whose arguments are copied as a whole."""

    @oc.function(ctx=oc.Context.emulated_gpu(check=True), axes={"x": "*bo"})
    def both(x: oc.Tensor) -> Any:
        return oc.mean(x), x * 2

    x = RNG.normal(size=(5, 2)).astype(np.float32)
    mean, double = both(x)
    np.testing.assert_allclose(mean, x.mean(), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(double, x * 2)
