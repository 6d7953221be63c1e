"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from support.nn.check import Array, Case, arrays_of, check_all

import ocannl as oc
from ocannl import nn, train


def patches(x: Array, stride: tuple[int, int], window: tuple[int, int]) -> Array:
    """The windows of each position, as two last axes."""
    every = sliding_window_view(x, window, (-3, -2))
    return every[..., :: stride[0], :: stride[1], :, :, :]


def padded(x: Array, window: int, value: float) -> Array:
    around = ((window - 1) // 2, window // 2)
    return np.pad(x, [(0, 0)] * (x.ndim - 3) + [around, around, (0, 0)], constant_values=value)


def log_sum_exp(x: Array) -> Array:
    return np.asarray(np.log(np.exp(x).sum((-2, -1))))


def torch_pool(name: str, x: Any, window: Any, stride: Any, padding: int = 0) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    images = x.movedim(-1, -3)
    result = getattr(functional, name)(images.reshape(-1, *images.shape[-3:]), window, stride, padding)
    return result.movedim(1, -1).reshape(*x.shape[:-3], *result.shape[2:], x.shape[-1])


def torch_log_sum_exp(x: Any, window: int, stride: int, padding: int = 0) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    around = (0, 0, padding, padding, padding, padding)
    image = functional.pad(x, around, value=-1e9).unfold(-3, window, stride).unfold(-3, window, stride)
    return image.flatten(-2).logsumexp(-1)


X = arrays_of((2, 6, 8, 3))[0]
ODD = arrays_of((2, 7, 9, 2))[0]
MORE = arrays_of((2, 2, 4, 6, 2))[0]
ONE = arrays_of((4, 6, 2))[0]

CASES = {
    **{
        f"max, {x.ndim - 3} batch axes": Case(
            nn.max_pool2d(),
            [x],
            lambda p, x: patches(x, (2, 2), (2, 2)).max((-2, -1)),
            lambda p, x: torch_pool("max_pool2d", x, 2, 2),
        )
        for x in (ONE, X, MORE)
    },
    "max, overlapping": Case(
        nn.max_pool2d(window_size=3),
        [ODD],
        lambda p, x: patches(x, (2, 2), (3, 3)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, 3, 2),
    ),
    "max, pairs": Case(
        nn.max_pool2d(window_size=(3, 1), stride=(1, 2)),
        [ODD],
        lambda p, x: patches(x, (1, 2), (3, 1)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, (3, 1), (1, 2)),
    ),
    "max, padded, of negative numbers": Case(
        nn.max_pool2d(window_size=3, use_padding=True),
        [-np.exp(X)],
        lambda p, x: patches(padded(x, 3, -np.inf), (2, 2), (3, 3)).max((-2, -1)),
        lambda p, x: torch_pool("max_pool2d", x, 3, 2, 1),
    ),
    "mean": Case(
        nn.avg_pool2d(),
        [X],
        lambda p, x: patches(x, (2, 2), (2, 2)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 2, 2),
    ),
    "mean, overlapping": Case(
        nn.avg_pool2d(window_size=3, stride=1),
        [X],
        lambda p, x: patches(x, (1, 1), (3, 3)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 3, 1),
    ),
    "mean, padded": Case(
        nn.avg_pool2d(window_size=3, use_padding=True),
        [X],
        lambda p, x: patches(padded(x, 3, 0), (2, 2), (3, 3)).mean((-2, -1)),
        lambda p, x: torch_pool("avg_pool2d", x, 3, 2, 1),
    ),
    "smooth maximum": Case(
        nn.smooth_max_pool2d(),
        [X],
        lambda p, x: log_sum_exp(patches(x, (2, 2), (2, 2))),
        lambda p, x: torch_log_sum_exp(x, 2, 2),
    ),
    "smooth maximum, overlapping, beta": Case(
        nn.smooth_max_pool2d(beta=7.0, window_size=3, stride=1),
        [ODD],
        lambda p, x: log_sum_exp(7 * patches(x, (1, 1), (3, 3))) / 7,
        lambda p, x: torch_log_sum_exp(7 * x, 3, 1) / 7,
    ),
    "smooth maximum, padded": Case(
        nn.smooth_max_pool2d(window_size=3, use_padding=True),
        [X],
        lambda p, x: log_sum_exp(patches(padded(x, 3, -np.inf), (2, 2), (3, 3))),
        lambda p, x: torch_log_sum_exp(x, 3, 2, 1),
    ),
    **{
        f"global mean, {x.ndim - 3} batch axes": Case(
            nn.global_avg_pool2d,
            [x],
            lambda p, x: x.mean((-3, -2)),
            lambda p, x: x.mean((-3, -2)),
        )
        for x in (ONE, X, MORE)
    },
}


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


@pytest.mark.parametrize("pool", [nn.max_pool2d, nn.avg_pool2d, nn.smooth_max_pool2d])
class TestErrors:
    def test_a_stride_that_does_not_divide(self, pool: Any):
        with pytest.raises(oc.ShapeError, match=r"axis of size 9 leaves 7, which does not divide by 2"):
            oc.infer(pool()(oc.data(np.zeros((2, 6, 9, 3)))))

    def test_a_stride_that_does_not_divide_with_padding(self, pool: Any):
        with pytest.raises(oc.ShapeError, match=r"axis of size 9 has 9, which does not divide by 2"):
            oc.infer(pool(use_padding=True)(oc.data(np.zeros((2, 6, 9, 3)))))

    def test_a_window_beyond_the_image(self, pool: Any):
        with pytest.raises(oc.ShapeError, match=r"an axis of size 3 is too short"):
            oc.infer(pool(window_size=5)(oc.data(np.zeros((2, 3, 8, 3)))))

    @pytest.mark.parametrize(
        ("settings", "error"), [({"window_size": 0}, ValueError), ({"stride": 1.5}, TypeError)]
    )
    def test_no_size(self, pool: Any, settings: Any, error: type[Exception]):
        with pytest.raises(error, match=next(iter(settings))):
            pool(**settings)
