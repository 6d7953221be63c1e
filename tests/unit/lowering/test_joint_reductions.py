"""Several reductions of the same columns, which one kernel computes in one loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train


@pytest.mark.parametrize("sizes", [(5, 7, 9), (32, 2, 2), (4, 128, 8)])
def test_sums_and_extremes(sizes: tuple[int, ...]):
    """Of columns whose number and height are no multiples of anything."""
    array = np.random.default_rng(0).standard_normal((*sizes, 24)).astype(np.float32)
    x = oc.data(array, axes="bbbo", label="x")
    total, most = (
        oc.einsum("b, h, w | c => | c", x).named("total"),
        oc.einmax("b, h, w | c => | c", x).named("most"),
    )
    squares = oc.einsum("b, h, w | c => | c", x * x).named("squares")
    ctx = oc.Context.emulated_gpu(check=True, shuffle=1)
    step = ctx.compile(sum((oc.forward(y) for y in (total, most, squares)), oc.Code()), name="step")
    step()
    assert step.ir("kernels").count("loops.load %x") == 1
    axes = (0, 1, 2)
    np.testing.assert_allclose(ctx[total], array.sum(axes), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(ctx[most], array.max(axes))
    np.testing.assert_allclose(ctx[squares], (array * array).sum(axes), rtol=1e-5)


def test_the_gradients_of_a_batch_norm():
    """The step of a convolution with a batch norm is that of the CPU."""
    image = np.random.default_rng(0).standard_normal((8, 12, 12, 3)).astype(np.float32)
    found: list[dict[str, NDArray[Any]]] = []
    for ctx in (oc.Context.cpu(), oc.Context.emulated_gpu(check=True)):
        x = oc.data(image, axes="bbbo", label="x")
        y = nn.conv_bn_relu(out_channels=16, label="stem")(x, oc.index("step_n"))
        loss = oc.sum(y * y)
        step = ctx.compile(train.grad_update(loss), name="step")
        ctx.init_params(loss, seed=1)
        step(step_n=0)
        found.append({name: np.asarray(ctx[p.grad]) for name, p in oc.params(loss).items()})
        if ctx.backend == "emulated_gpu":
            assert "stem.batch_norm.gain.grad .. n6_grad_2" in step.ir("fuse-sums")
    for name, array in found[0].items():
        close = 1e-4 * max(1e-3, np.abs(array).max())
        np.testing.assert_allclose(found[1][name], array, rtol=1e-4, atol=close)
