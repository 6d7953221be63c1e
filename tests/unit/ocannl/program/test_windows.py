"""Windows of several dimensions, and dimensions that are counted from their ends."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

RNG = np.random.default_rng(3)
X, K, J = RNG.normal(size=9), RNG.normal(size=3), RNG.normal(size=2)


def value(tensor: oc.Tensor) -> NDArray[Any]:
    return oc.Context.cpu(threads=1)[tensor]


MODES: list[tuple[str, Literal["valid", "same"]]] = [("<+", "valid"), ("=+", "same")]


@pytest.mark.parametrize(("plus", "mode"), MODES)
def test_a_convolution_is_that_of_numpy(plus: str, mode: Literal["valid", "same"]):
    x, k = oc.data(X), oc.data(K)
    np.testing.assert_allclose(value(oc.einsum(f"o {plus} -k; k => o", x, k)), np.convolve(X, K, mode))
    np.testing.assert_allclose(value(oc.einsum(f"o {plus} k; k => o", x, k)), np.correlate(X, K, mode))


def test_a_window_of_two_dimensions():
    """A correlation by two kernels is that by both in turn."""
    x, k, j = oc.data(X[:8]), oc.data(K), oc.data(J)
    found = oc.einsum("2*o <+ k + 3*j; k; j => o", x, k, j)
    wide = np.zeros(6)
    for at, weight in enumerate(J):
        wide[3 * at : 3 * at + 3] += weight * K
    wanted = np.array([X[at : at + 6] @ wide for at in (0, 2)])
    np.testing.assert_allclose(value(found), wanted)
    (gradient,) = oc.grad(found.sum(), [x])
    back = np.zeros(8)
    for at in (0, 2):
        back[at : at + 6] += wide
    np.testing.assert_allclose(value(gradient), back)


def test_a_padded_window_of_two_dimensions():
    found = oc.einsum("o =+ -k + j => o, k, j", oc.data(X), k=3, j=2)
    padded = np.pad(X, (1, 2))  # a reach of 3, of which 1 is before the middle
    wanted = [[[padded[o + 2 - k + j] for j in range(2)] for k in range(3)] for o in range(9)]
    np.testing.assert_array_equal(value(found), wanted)


@pytest.mark.parametrize(
    ("spec", "wanted"), [("-o => o", X[::-1]), ("o => -o", X[::-1]), ("-s*o => o", X[6::-3])]
)
def test_reverses(spec: str, wanted: NDArray[Any]):
    given: Any = {"s": 3} if "s" in spec else {}
    np.testing.assert_array_equal(value(oc.einsum(spec, oc.data(X), **given)), wanted)


def test_shapes_are_inferred_through_it():
    """The kernel's size from the others', as of other windows; nothing is read outside."""
    k = oc.param("k", 1.0, batch=[], input=[])
    y = oc.einsum("o <+ -k + j; k; j => o", oc.data(X), k, oc.data(J))
    total = nn.mse(y, oc.data(np.zeros(6)))
    oc.infer(total)
    assert k.shape.output == (3,)
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(total)
    np.testing.assert_allclose(ctx[y], np.correlate(np.correlate(X, np.ones(3), "valid"), J, "valid"))
