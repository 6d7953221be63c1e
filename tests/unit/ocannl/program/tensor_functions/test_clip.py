"""Clipping."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc

X = np.array([-2.0, -1.0, 0.0, 1.0, 3.0, np.nan, np.inf])


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (None, 0.5), (0.25, None), (2.0, -2.0)])
def test_as_in_numpy(bounds: tuple[float | None, float | None]):
    ctx = oc.Context.cpu(threads=1)
    np.testing.assert_array_equal(ctx[oc.clip(oc.data(X), *bounds)], np.clip(X, *bounds))


def test_bounds_pass_the_gradient():
    """As PyTorch's `clamp`."""
    x = oc.data(X[:5])
    slope = oc.grad(oc.clip(x, -1.0, 1.0).einsum("... | ... => |"), x)
    np.testing.assert_array_equal(oc.Context.cpu(threads=1)[slope], [0, 1, 1, 1, 0])
