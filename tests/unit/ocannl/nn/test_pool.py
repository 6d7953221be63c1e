"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.pool import CASES

import ocannl as oc
from ocannl import nn, train


@pytest.mark.sampled(5)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def test_a_smooth_maximum_far_out():
    x = np.array([1000.0, 0.0, -1000.0, 999.0]).reshape(2, 2, 1)
    found = oc.Context.cpu()[nn.smooth_max_pool2d()(oc.data(x))]
    np.testing.assert_allclose(found, [[[1000 + np.log1p(np.exp(-1))]]])


def test_several_maxima_share_no_gradient():
    """Each of them receives all of it."""
    x = oc.param("x", np.ones((2, 2, 1)), batch=[2, 2], output=1)
    ctx = oc.Context.cpu()
    train.update_once(ctx, nn.max_pool2d()(x).einsum("...|... => 0"))
    np.testing.assert_array_equal(ctx[x.grad], np.ones((2, 2, 1)))


@pytest.mark.parametrize(
    "how",
    [
        {"stride": 2},
        {"stride": 2, "padding": 1},
        {"stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2},
        {"stride": 1, "padding": (1, 0)},
    ],
    ids=str,
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_places_of_maxima(rank: int, how: dict[str, Any]):
    """The first of several; in two dimensions, also of nothing but negative infinity, of which PyTorch has
    in three dimensions places outside of the window.
    """
    torch = pytest.importorskip("torch")
    how = {k: v[:1] * rank if k == "padding" and isinstance(v, tuple) else v for k, v in how.items()}
    x = np.random.default_rng(1).integers(0, 4, (2, *(7, 6, 8)[:rank], 3)).astype(np.float32)
    if rank == 2:
        x[0] = -np.inf
    values, places = getattr(nn, f"max_pool{rank}d")(window_size=3, return_indices=True, **how)(oc.data(x))
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    wanted = pool(torch.tensor(x).movedim(-1, 1), 3, return_indices=True, **how)
    ctx = oc.Context.cpu(threads=1)
    for found, reference in zip((values, places), wanted, strict=True):
        np.testing.assert_array_equal(ctx[found], reference.movedim(1, -1).numpy())
    assert ctx[places].dtype == np.int32


def test_no_number_is_where_it_is_found():
    x = np.array([1.0, np.nan, 3.0, 2.0]).reshape(1, 4, 1)
    _, places = nn.max_pool1d(return_indices=True)(oc.data(x))
    np.testing.assert_array_equal(oc.Context.cpu(threads=1)[places].ravel(), [1, 2])


def test_one_place_of_several_windows():
    """Each value there has a gradient, as in PyTorch."""
    x = oc.param("x", np.array([1.0, 5.0, 2.0]), batch=3, output=1, input=[])
    y, places = nn.max_pool1d(window_size=2, stride=1, return_indices=True)(x)
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(x)
    np.testing.assert_array_equal(ctx[nn.max_unpool(y, places, (3,))].ravel(), [0, 5, 0])
    np.testing.assert_array_equal(ctx[oc.grad(oc.sum(nn.max_unpool(y, places, (3,))), x)].ravel(), [0, 2, 0])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float16, np.float32, np.float64])
def test_maxima_that_are_least_or_no_number_are_put_back(dtype: Any):
    """Cells without a maximum are zeros of the same dtype."""
    kind = np.dtype(dtype)
    special = [np.iinfo(kind).min, 0] if kind.kind in "iu" else [-np.inf, np.nan]
    x = np.repeat([special[0], 7, special[1]], [2, 1, 1]).astype(kind).reshape(4, 1)
    values, places = nn.max_pool1d(return_indices=True)(oc.data(x))
    found = oc.Context.cpu(threads=1)[nn.max_unpool(values, places, (4,))]
    at = np.nanargmax(x[2:]) if kind.kind in "iu" else 1
    wanted = np.zeros_like(x)
    wanted[0], wanted[2 + at] = x[0], x[2 + at]
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == kind


def test_sizes_that_are_none():
    x = oc.data(np.ones((4, 1)))
    with pytest.raises(oc.ArgumentError, match="size has one number for each spatial axis, found none"):
        nn.max_unpool(x, x, ())
    with pytest.raises(oc.ArgumentError, match="batch or output"):
        nn.max_unpool(x, x, (4,), spatial="input")


def test_a_place_beyond_the_image_is_an_error():
    y, places = nn.max_pool1d(return_indices=True)(oc.data(np.arange(6.0).reshape(6, 1)))
    with pytest.raises(oc.OcannlError, match="5"):
        oc.Context.cpu(threads=1)[nn.max_unpool(y, places, (5,))]


@pytest.mark.parametrize(
    ("mode", "size", "amounts"), [("reflect", 0, (1, 0)), ("replicate", 0, (0, 1)), ("circular", 3, (-3, 2))]
)
def test_no_cells_to_repeat(mode: str, size: int, amounts: tuple[int, int]):
    with pytest.raises(oc.ShapeError, match="no cells that could be repeated"):
        nn.pad([amounts], mode=mode)(oc.data(np.ones((size, 1)), axes="bo"))


@pytest.mark.parametrize("pool", [nn.max_pool2d, nn.avg_pool2d, nn.smooth_max_pool2d])
class TestErrors:
    def test_a_size_that_is_not_known_where_it_is_applied_and_does_not_divide(self, pool: Any):
        images = oc.param("images", 0.0, batch=[oc.Dim("n"), oc.Dim("h"), oc.Dim("w")], input=[])
        pooled = pool()(images)
        with pytest.raises(oc.ShapeError, match=r"axis of size 9 leaves 7, which does not divide by 2"):
            oc.infer(oc.forward(pooled) + oc.forward(images + oc.data(np.zeros((2, 6, 9, 3)))))

    def test_a_window_beyond_the_image(self, pool: Any):
        with pytest.raises(oc.ShapeError, match="window of size 5 does not fit in axis 1"):
            oc.infer(pool(window_size=5)(oc.data(np.zeros((2, 3, 8, 3)))))

    def test_places_in_an_image_of_unknown_size(self, pool: Any):
        images = oc.param("images", 0.0, batch=[oc.Dim("h"), oc.Dim("w")], input=[])
        if pool is nn.max_pool2d:
            with pytest.raises(oc.ShapeError, match="the places of maxima"):
                pool(return_indices=True)(images)

    @pytest.mark.parametrize(
        ("settings", "error"), [({"window_size": 0}, ValueError), ({"stride": 1.5}, TypeError)]
    )
    def test_no_size(self, pool: Any, settings: Any, error: type[Exception]):
        with pytest.raises(error, match=next(iter(settings))):
            pool(**settings)


def test_cells_around_two_axes_are_copied_once():
    """One nest reads all of them, without an image that is padded along one axis."""
    y = nn.pad([1, (2, 0)], mode="reflect")(oc.data(np.zeros((2, 5, 6, 3), np.float32)))
    assert y.forward.ir("loops").count("loops.nest") == 1
