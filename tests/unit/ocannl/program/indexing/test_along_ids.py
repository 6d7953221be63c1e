"""Elements at ids along an axis, and grids, against NumPy and PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc

CTX = oc.Context.cpu(1)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4, 5))
SHAPES = [(0, (2, 4, 5)), (1, (3, 6, 5)), (-1, (3, 4, 1))]


def ids_along(axis: int, shape: tuple[int, ...]) -> Array:
    return np.asarray(np.random.default_rng(5).integers(0, X.shape[axis], shape))


@pytest.mark.parametrize(("axis", "shape"), [*SHAPES, (1, (1, 2, 5)), (2, (3, 1, 2))])
def test_taken_are_those_of_numpy(axis: int, shape: tuple[int, ...]):
    x, ids = oc.data(X, label="x"), ids_along(axis, shape)
    found = oc.take_along_axis(x, oc.data(ids, axes="boi"), axis)
    wanted = np.take_along_axis(X, ids, axis)
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_array_equal(CTX[found], wanted)
    weights = RNG.normal(size=wanted.shape)
    gradient = np.zeros_like(X)
    grid = np.indices(wanted.shape)
    grid[axis] = np.broadcast_to(ids, wanted.shape)
    np.add.at(gradient, tuple(grid), weights)
    np.testing.assert_allclose(CTX[oc.grad((found * oc.data(weights)).sum(), x)], gradient, atol=1e-15)


@pytest.mark.parametrize(("axis", "shape"), SHAPES)
@pytest.mark.parametrize(
    ("accum", "include_self"),
    [("set", True), *itertools.product(["add", "mean", "mul", "max", "min"], [True, False])],
)
def test_put_are_those_of_pytorch(accum: str, axis: int, shape: tuple[int, ...], include_self: bool):
    torch: Any = pytest.importorskip("torch")
    start, values = (
        torch.tensor(X, requires_grad=True),
        torch.tensor(RNG.normal(size=shape), requires_grad=True),
    )
    ids = ids_along(axis, shape)
    names = {"add": "sum", "max": "amax", "min": "amin", "mean": "mean", "mul": "prod"}
    if accum == "set":
        wanted = start.scatter(axis, torch.tensor(ids), values)
    else:
        settings = {"reduce": names[accum], "include_self": include_self}
        wanted = start.scatter_reduce(axis, torch.tensor(ids), values, **settings)
    x, v = oc.data(X, label="x"), oc.data(values.detach().numpy(), label="v")
    found = oc.put_along_axis(x, oc.data(ids), v, axis, accum=accum, include_self=include_self)
    np.testing.assert_allclose(CTX[found], wanted.detach(), rtol=1e-13)
    weights = RNG.normal(size=X.shape)
    (wanted * torch.tensor(weights)).sum().backward()
    gradients = oc.grad((found * oc.data(weights)).sum(), [x, v])
    np.testing.assert_allclose(CTX[gradients[0]], start.grad, atol=1e-14)
    # PyTorch's own gradient of `scatter` is wrong for values that others replace.
    kept = accum != "set" or np.isin(values.detach().numpy(), wanted.detach().numpy())
    np.testing.assert_allclose(CTX[gradients[1]], np.where(kept, values.grad, 0.0), atol=1e-14)


def test_put_broadcasts_values():
    """As `np.put_along_axis`, of which the last value for a place stays too."""
    x, ids = oc.data(X, label="x"), np.array([[[0, 3, 0]]])
    for values in (2.5, np.array([1.0, 2.0, 3.0]), RNG.normal(size=(4, 1))):
        wanted = X.copy()
        np.put_along_axis(wanted, ids, values, 2)
        tensor = values if isinstance(values, float) else oc.data(values)
        np.testing.assert_array_equal(CTX[oc.put_along_axis(x, oc.data(ids), tensor)], wanted)


def test_integers_are_put():
    x = oc.data(np.array([5, 6, 7], np.int32), label="x")
    ids = oc.data(np.array([2, 2]))
    for accum, wanted in (("set", [5, 6, 2]), ("add", [5, 6, 12]), ("max", [5, 6, 7]), ("min", [5, 6, 2])):
        found = oc.put_along_axis(x, ids, oc.data(np.array([3, 2], np.int32)), accum=accum)
        np.testing.assert_array_equal(CTX[found], wanted)
        assert found.dtype == np.int32


def test_ids_that_do_not_fit():
    x, ids = oc.data(X, label="x"), oc.data(np.array([1, 9]), label="ids")
    with pytest.raises(oc.ArgumentError, match=r"have the axes of `x: 3,4|5`, found 2"):
        oc.take_along_axis(x, ids)
    wide = oc.data(np.array([[[1, 9]]]), label="wide")
    with pytest.raises(oc.OcannlError, match="the id 9 in `wide`"):
        oc.take_along_axis(x, wide).numpy()
    np.testing.assert_array_equal(CTX[oc.take_along_axis(x, wide, out_of_range="clamp")], X[..., [1, 4]])
    np.testing.assert_array_equal(
        CTX[oc.put_along_axis(x, wide, 0.0, out_of_range="drop")][..., 2:], X[..., 2:]
    )
    with pytest.raises(oc.SpecError, match="set, add, mean, mul, max or min"):
        oc.put_along_axis(x, wide, 0.0, accum="sub")
    with pytest.raises(oc.ArgumentError, match="`include_self`"):
        oc.put_along_axis(x, wide, 0.0, include_self=0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids(indexing: Any):
    arrays = [RNG.normal(size=n) for n in (3, 4, 2)]
    for count in range(4):
        found = oc.meshgrid(*map(oc.data, arrays[:count]), indexing=indexing)
        for one, wanted in zip(found, np.meshgrid(*arrays[:count], indexing=indexing), strict=True):
            assert tuple(one.shape) == wanted.shape
            np.testing.assert_array_equal(CTX[one], wanted)
    x = oc.data(arrays[0])
    y = oc.meshgrid(x, oc.data(arrays[1], axes="b"), indexing=indexing)[0]
    np.testing.assert_array_equal(CTX[oc.grad(y.sum(), x)], [4, 4, 4])
    with pytest.raises(oc.ArgumentError, match="one axis"):
        oc.meshgrid(y)
    with pytest.raises(oc.ArgumentError, match="order"):
        oc.meshgrid(x, indexing="yx")
