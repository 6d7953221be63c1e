"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.pool import CASES

import ocannl as oc
from ocannl import nn, train


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
    def test_a_size_that_is_not_known_where_it_is_applied_and_does_not_divide(self, pool: Any):
        images = oc.param("images", 0.0, batch=[oc.Dim("n"), oc.Dim("h"), oc.Dim("w")], input=[])
        pooled = pool()(images)
        with pytest.raises(oc.ShapeError, match=r"axis of size 9 leaves 7, which does not divide by 2"):
            oc.infer(oc.forward(pooled) + oc.forward(images + oc.data(np.zeros((2, 6, 9, 3)))))

    def test_a_window_beyond_the_image(self, pool: Any):
        with pytest.raises(oc.ShapeError, match=r"an axis of size 3 is too short"):
            oc.infer(pool(window_size=5)(oc.data(np.zeros((2, 3, 8, 3)))))

    @pytest.mark.parametrize(
        ("settings", "error"), [({"window_size": 0}, ValueError), ({"stride": 1.5}, TypeError)]
    )
    def test_no_size(self, pool: Any, settings: Any, error: type[Exception]):
        with pytest.raises(error, match=next(iter(settings))):
            pool(**settings)
