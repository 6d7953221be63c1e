"""Products of many rows with a matrix of few columns are tiled."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(("columns", "tiled"), [(3, False), (4, True), (6, True), (15, True)])
def test_few_columns(columns: int, tiled: bool, tf32: bool):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, size).astype(np.float32) for size in ((8, 24, 24, 16), (16, columns)))
    x, w = oc.data(a, axes="bbbo", label="x"), oc.data(b, axes="oo", label="w")
    y = oc.einsum("b, h, w | k; | k, c => b, h, w | c", x, w).named("y")
    ctx = oc.Context.emulated_gpu(check=True, tf32=tf32)
    step = ctx.compile(oc.forward(y), name="step")
    step()
    np.testing.assert_array_equal(ctx[y], a @ b)
    assert ("kernel.copy" in step.ir("kernels")) == tiled
