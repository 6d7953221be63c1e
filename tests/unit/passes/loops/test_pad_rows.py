"""Rows of local nodes that are longer in memory: programs compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.loops import pad_rows


def losses(ctx: oc.Context) -> list[float]:
    """Of a classifier with 77 features inside, and scores of 61 classes."""
    rng = np.random.default_rng(0)
    x = oc.data(rng.standard_normal((96, 45)).astype(np.float32), axes="bo", label="x")
    loss = nn.cross_entropy(nn.mlp(hid_dims=[77], out_dim=61)(x), oc.data(np.arange(96) % 61, axes="b"))
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=1)
    if ctx.backend != "cpu":
        assert "memref<96x80xf32>" in step.ir("kernels")
    return [step() or float(ctx[loss]) for _ in range(3)]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_steps(arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pad_rows, "LEAST_ROW", 16)
    monkeypatch.setattr(pad_rows.PadRowsPass.__init__, "__defaults__", (0,))
    expected = losses(oc.Context.cpu())
    found = losses(oc.Context.emulated_gpu(arch=arch, check=True, shuffle=1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
