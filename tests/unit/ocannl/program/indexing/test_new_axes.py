"""New axes, `t[:, None]`, against NumPy's broadcasting."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

RNG = np.random.default_rng(3)
X, V, C, Q = (RNG.normal(size=size) for size in ((5, 4), (5,), (5, 3, 3, 4), (2, 3, 4)))
CTX = oc.Context.cpu(1)

Case = Callable[[Any, Any, Any, Any], Any]

CASES: dict[str, Case] = {
    "one number for each row": lambda x, v, c, q: x - v[:, None],
    "a row of numbers against itself": lambda x, v, c, q: v[:, None] - v[None],
    "all axes named": lambda x, v, c, q: v[:, None] * v[None, :],
    "pairs of rows": lambda x, v, c, q: x[:, None] - x[None],
    "pairs of rows, all axes named": lambda x, v, c, q: x[:, None, :] - x[None, :, :],
    "outer products of rows": lambda x, v, c, q: x[..., None] * x[:, None, :],
    "in front of features": lambda x, v, c, q: x - x[0][None],
    "in front of features, twice": lambda x, v, c, q: c - x[0][None, None],
    "one number for each channel": lambda x, v, c, q: c * x[:, None, None],
    "one number for each image": lambda x, v, c, q: c * v[:, None, None, None],
    "pairs of positions": lambda x, v, c, q: q[:, :, None] * q[:, None],
    "through other operations": lambda x, v, c, q: (abs(v[:, None]) * 2 - 1) * x,
    "of two new axes": lambda x, v, c, q: (v[:, None] + v[None]) * x[:, 0][None],
    "in two steps": lambda x, v, c, q: v[None][..., None] * x,
    "behind and before": lambda x, v, c, q: v[:, None][None] * x,
    "comparisons": lambda x, v, c, q: v[:, None] < x,
    "of three": lambda x, v, c, q: x[:, None] * v[:, None] + v[:, None, None],
}


def tensors() -> list[oc.Tensor]:
    axes = ("bo", "b", "bbbo", "bbo")
    return [oc.data(array, axes=letters) for array, letters in zip((X, V, C, Q), axes, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_point_by_point_as_in_numpy(name: str):
    found = CTX[CASES[name](*tensors())]
    wanted = CASES[name](X, V, C, Q)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", ["one number for each row", "pairs of rows", "outer products of rows"])
def test_gradients(name: str):
    x, v, c, q = tensors()
    found = CTX[oc.vjp((CASES[name](x, v, c, q) ** 2).sum(), x, 1.0)]
    step = 1e-6
    for at in ((0, 0), (2, 3)):
        moved = np.zeros_like(X)
        moved[at] = step
        ends = [(CASES[name](X + sign * moved, V, C, Q) ** 2).sum() for sign in (1, -1)]
        assert found[at] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_of_layers_whose_weights_are_open():
    h = nn.linear(out_dim=3)(oc.data(X))
    centered = h - h.mean(-1)[:, None]
    distances = ((h[:, None] - h[None]) ** 2).sum(-1)
    CTX.init_params(centered)
    array = CTX[h]
    np.testing.assert_allclose(CTX[centered], array - array.mean(-1)[:, None], rtol=1e-5, atol=1e-7)
    wanted = ((array[:, None] - array[None]) ** 2).sum(-1)
    np.testing.assert_allclose(CTX[distances], wanted, rtol=1e-5, atol=1e-6)


def test_in_losses_casts_and_where():
    x, v, *_ = tensors()
    np.testing.assert_allclose(CTX[nn.mse(x[:, :1], v[:, None])], ((X[:, :1] - V[:, None]) ** 2).mean())
    np.testing.assert_allclose(CTX[oc.cast(v[:, None] > 0, np.float64) * x], (V[:, None] > 0) * X)
    np.testing.assert_allclose(CTX[oc.where(v[:, None] > 0, x, -x)], np.where(V[:, None] > 0, X, -X))
    pairs = oc.stop_gradient(v[:, None]) * oc.cast(v, np.float64)[None]
    np.testing.assert_allclose(CTX[pairs], np.outer(V, V))


def test_in_functions_of_points():
    @oc.pointwise
    def f(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        return x * y + y

    x, v, *_ = tensors()
    np.testing.assert_allclose(CTX[f(x, v[:, None])], X * V[:, None] + V[:, None], rtol=1e-14)


def test_of_weights():
    w = oc.param("w", X, output=5, input=4)
    CTX.init_params(w)
    lengths = oc.norm(w)
    np.testing.assert_allclose(CTX[w / lengths[:, None]], X / np.linalg.norm(X, axis=1)[:, None], rtol=1e-6)


def test_memory_is_set_to_them():
    m = oc.node("m", batch=5, output=4, init=0.0)
    with oc.code("set") as code:
        m[...] = tensors()[1][:, None]
        m += tensors()[1][:, None]
    CTX.compile(code)()
    np.testing.assert_allclose(CTX[m], np.broadcast_to(2 * V[:, None], (5, 4)), rtol=1e-6)


def test_in_eager_mode():
    with oc.eager():
        x, v, *_ = tensors()
        np.testing.assert_allclose((x - v[:, None]).numpy(), X - V[:, None])


def test_rows_of_new_axes_alone():
    x, v, *_ = tensors()
    ids = oc.data(np.arange(5), axes="b")
    assert [str(t.shape) for t in (x[:, None], x[None], x[..., None])] == ["5,1|4", "1,5|4", "5|4,1"]
    assert [str(t.shape) for t in (v[:, None], v[None], x[0][None])] == ["5|1", "1,5|", "1|4"]
    assert [str(t.shape) for t in (ids[:, None], ids[None])] == ["5,1|", "1,5|"]


def test_a_linear_layer_of_one_feature():
    assert tuple(nn.linear(out_dim=3)(tensors()[1][:, None]).shape) == (5, 3)


def test_a_training_step_with_pairs():
    model = nn.linear(out_dim=2)

    @oc.function
    def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        h = model(x)
        same = oc.eq(y[:, None], y[None, :])
        squares = ((h[:, None] - h[None]) ** 2).sum(-1)
        loss = oc.where(same, squares, oc.maximum(1 - squares, 0)).mean()
        train.sgd(0.1).step(loss)
        return loss

    labels = np.arange(5) % 2
    assert step(X.astype(np.float32), labels) > step(X.astype(np.float32), labels)


def test_axes_of_two_rows_in_one_place():
    w, v, x = oc.param("w", X, output=5, input=4), oc.data(V, axes="b"), oc.data(X)
    scaled = w * v[:, None]
    scores = x[:, :, None] + oc.data(X[:4], label="transitions")[None]
    CTX.init_params(w)
    np.testing.assert_allclose(CTX[scaled], X * V[:, None], rtol=1e-6)
    oc.infer(scaled)
    assert str(scaled.shape) == "4->5"
    np.testing.assert_allclose(CTX[scores], X[:, :, None] + X[:4])
    oc.infer(scores)
    assert str(scores.shape) == "5,4|4"


def test_masks_of_padding_and_of_what_comes_later():
    given = np.array([[True, True, False], [True, True, True]])
    mask = nn.causal_mask(3) * oc.data(given, axes="bb")[:, None]
    np.testing.assert_array_equal(CTX[mask], np.tril(np.ones((3, 3))) * given[:, None])
    oc.infer(mask)
    assert str(mask.shape) == "2,3|3->"


def test_a_target_for_each_row_of_one_output_is_told():
    model = nn.linear(out_dim=1, label="of_pairs")
    told = "(5) meets batch axes of the same sizes (5|1): all pairs are computed; "
    with pytest.warns(UserWarning, match="all pairs") as outside:
        assert str((oc.relu(model(oc.data(X))) - oc.data(V, label="y")).shape) == "...,5|...->...,5"
    squares = oc.function(lambda x, y: ((model(x) - y) ** 2).mean())
    with pytest.warns(UserWarning, match="all pairs") as inside:
        squares(X, V)
    for (warning,), way in ((outside, "oc.data(..., axes='b')"), (inside, "oc.function(axes={'y': 'b'})")):
        assert f"`y` {told}{way} has batch axes" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        squares(X, V[:, None])
        oc.function(lambda x, y: nn.mse(model(x), y))(X, V)
        oc.function(lambda a, b: a - b)(V[:, None], V)  # arrays, as in NumPy


def test_all_pairs_of_pairs_are_told():
    ids = np.arange(5)

    def of_equal_ids(x: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
        return ((x[:, None] - x[None]) ** 2).sum(-1) * oc.eq(ids[:, None], ids[None])

    with pytest.warns(UserWarning, match=r"\(5\|5\) meets batch axes of the same sizes \(5,5\|\): all pairs"):
        assert of_equal_ids(oc.data(X), oc.data(ids)).numpy().shape == (5, 5, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = ((X[:, None] - X[None]) ** 2).sum(-1) * np.eye(5)
        np.testing.assert_allclose(oc.function(of_equal_ids)(X, ids), expected)
        assert of_equal_ids(oc.data(X), oc.data(ids, axes="b")).numpy().shape == (5, 5)


def test_all_pairs_that_nobody_asked_for_are_told():
    x, y = oc.data(X), oc.data(V, label="y")
    with pytest.warns(UserWarning, match="all pairs") as told:
        errors = x.sum(-1) - (y - y.mean())
    assert errors.numpy().shape == (5, 5)
    (warning,) = told
    assert str(warning.message) == (
        "`(y - ...)` (5) meets batch axes of the same sizes (5|): all pairs are computed; "
        "oc.rearrange(t, 'a -> a', axes='b') has batch axes, and t[:, None] says that pairs are meant"
    )
    assert warning.filename == __file__


def test_pairs_that_are_said_are_not_told(recwarn: pytest.WarningsRecorder):
    x, y = oc.data(X), oc.data(V)
    for pairs in (
        x.sum(-1)[:, None] - y[None],
        x.sum(-1) - oc.data(V, axes="o"),
        x - x.mean(-1),
        x[0] * y[0],
    ):
        assert pairs.ndim
    assert not recwarn.list


KEPT: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
    "running sums": oc.cumsum,
    "sums from behind": lambda y: oc.flip(oc.cumsum(oc.flip(y))),
    "sorted": oc.sort,
    "rolled": lambda y: oc.roll(y, 1),
    "from behind": lambda y: y[::-1],
    "at ids": lambda y: y[[4, 2, 0, 1, 1]],
    "means of columns": lambda y: (y[:, None] * y[None]).mean(0),
    "softmax": nn.softmax(),
    "log of sums": lambda y: y - oc.logsumexp(y, -1, keep=True),
    "a custom gradient": nn.softplus,
    "with random numbers": lambda y: oc.uniform(0, like=y, key=1) * y,
    "recomputed": oc.checkpoint(lambda y: 2 * y),
    "a gradient": lambda y: oc.grad((y * y).sum(), y),
    "in forward mode": lambda y: oc.jvp(y * y, y, y),
    "rearranged": lambda y: oc.rearrange(y, "a -> a"),
    "reshaped": lambda y: y.reshape(5),
    "at ids along an axis": lambda y: oc.take_along_axis(y, oc.argsort(y)),
    "put along an axis": lambda y: oc.put_along_axis(y, oc.argsort(y), y),
    "returns": lambda y: oc.scan(lambda g, r: (r + 0.9 * g,) * 2, 0.0, y, reverse=True, axis=0)[0],
    "a parallel scan": lambda y: oc.associative_scan(lambda a, b: a + b, y),
    "a branch": lambda y: oc.cond(y.sum() > 0, lambda y: 2 * y, lambda y: y, y),
    "a loop": lambda y: oc.while_loop(lambda y: y.sum() < 9, lambda y: 2 * y + 1, y, most=3),
    "a fixed point": lambda y: oc.fixed_point(lambda x: 0.5 * x + y, y),
}


@pytest.mark.parametrize("name", KEPT)
def test_rows_are_guessed_through_what_keeps_axes(name: str):
    f = KEPT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        errors = oc.function(lambda x, y: x.sum(-1) - f(y))(X, V)
        assert errors.shape == (5,)
        np.testing.assert_allclose(errors, X.sum(-1) - oc.function(lambda y: f(y))(V))
    with pytest.warns(UserWarning, match="all pairs"):
        assert (oc.data(X).sum(-1) - f(oc.data(V))).ndim == 2


def test_a_matrix_of_pairs_and_its_transpose_are_told():
    x = oc.data(X)
    distances = ((x[:, None] - x[None]) ** 2).sum(-1)
    with pytest.warns(UserWarning, match="all pairs"):
        assert (distances + oc.rearrange(distances, "i j -> j i")).ndim == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = distances + oc.rearrange(distances, "i j -> j i", axes="bb")
    np.testing.assert_allclose(CTX[both], 2 * CTX[distances])


def test_new_axes_stay_new_through_parts_and_reductions():
    v, x = oc.data(V, axes="o"), oc.data(X)
    column = v[:, None]
    wanted = V[:, None] * X
    for same in (
        column,
        column[::-1][::-1],
        column[[0, 1, 2, 3, 4]],
        oc.cumsum(column, 1),
        column.sum(1, keep=True),
        v[:, None, None].sum(1),
        oc.triu(column, -9),
    ):
        product = CTX[same * x]
        assert product.shape == wanted.shape
    np.testing.assert_allclose(CTX[column[::-1] * x], V[::-1, None] * X)
    np.testing.assert_allclose(CTX[v[:, None, None].sum(1) * x], wanted)
