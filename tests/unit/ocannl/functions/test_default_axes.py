"""Arguments whose rows nobody said: beside batch axes of the same sizes they are batch axes, as in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 3)).astype(np.float32)
Y = RNG.normal(size=6).astype(np.float32)
H, MASK = RNG.normal(size=(2, 3, 4)).astype(np.float32), RNG.random((2, 3)) < 0.6
SQUARE, LINE = RNG.normal(size=(4, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)

Case = tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]

CASES: dict[str, Case] = {
    "a loss by hand": (lambda x, y: ((x.sum(-1) - y) ** 2).mean(), (X, Y)),
    "advantages": (lambda x, y: (x.sum(-1) * ((y - y.mean()) / (y.std() + 1e-8))).sum(), (X, Y)),
    "returns": (lambda x, y, z: ((y + 0.9 * (1 - z) * x.max(-1)) ** 2).sum(), (X, Y, (Y > 0) * 1.0)),
    "masked means": (lambda h, m: (h.mean(-1) * m).sum() / m.sum(), (H, MASK * 1.0)),
    "masked features": (lambda h, m: (h * m[..., None]).sum() / m.sum(), (H, MASK)),
    "features of a square": (lambda s, v: s * v, (SQUARE, LINE)),
    "rows of a square": (lambda s, v: s * v[:, None], (SQUARE, LINE)),
    "sums of rows of a square": (lambda s, v: s.sum(-1) * v, (SQUARE, LINE)),
    "sums of columns of a square": (lambda s, v: s.sum(0) * v, (SQUARE, LINE)),
    "pairs": (lambda v: v[:, None] - v[None], (LINE,)),
    "pairs of equal labels": (lambda v: v[None, :] < v[:, None], (LINE,)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_as_in_numpy(name: str):
    function, arrays = CASES[name]
    found = oc.function(function, ctx=oc.Context.cpu(1))(*arrays)
    wanted = function(*arrays)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_rows_of_a_square_stay_rows():
    # The sums have one axis, x has two: rows broadcast to rows, whatever the sizes.
    centered = oc.function(lambda x: x - x.mean(-1), ctx=oc.Context.cpu(1))
    for array in (SQUARE, X):
        np.testing.assert_allclose(centered(array), array - array.mean(-1, keepdims=True), atol=1e-6)


def test_axes_that_are_said_stay():
    pairs = oc.function(lambda x, y: x.sum(-1) * y, ctx=oc.Context.cpu(1), axes={"y": "o"})
    np.testing.assert_allclose(pairs(X, Y), X.sum(-1)[:, None] * Y, rtol=1e-5)


def test_losses_of_a_column():
    step = oc.function(lambda x, y: nn.mse(x[:, 0], y), ctx=oc.Context.cpu(1))
    np.testing.assert_allclose(step(X, Y), ((X[:, 0] - Y) ** 2).mean(), rtol=1e-5)


@pytest.mark.parametrize("places", [8, 6])
def test_losses_of_a_layer_by_a_number_for_each_position(places: int):
    """As many positions as examples, or not: targets of a sequence are no outputs."""
    x = RNG.normal(size=(8, places, 3)).astype(np.float32)
    step = oc.function(lambda x, y: nn.mse(nn.linear(out_dim=1, init=1.0)(x), y), ctx=oc.Context.cpu(1))
    np.testing.assert_allclose(step(x, x.sum(-1)), 0, atol=1e-10)


@pytest.mark.parametrize("out_dim", [1, None])
def test_losses_of_a_layer_by_a_column(out_dim: int | None):
    """Each prediction would be compared with each target, before it is known how many a row has."""
    ctx, layer = oc.Context.cpu(1), nn.linear(out_dim=out_dim, init=1.0)
    found = oc.function(lambda x, y: nn.mse(layer(x), y), ctx=ctx)(X, Y)
    np.testing.assert_allclose(found, ((X.sum(-1) - Y) ** 2).mean(), rtol=1e-5)
    with pytest.raises(oc.ShapeError, match="each would meet each"):
        nn.mse(layer(oc.data(X)), oc.data(Y))
