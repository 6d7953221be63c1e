"""Nodes that are stored as numbers of 16 bits: programs compute the same bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.loops import narrow_nodes


def losses(ctx: oc.Context, dtype: Any) -> tuple[list[float], list[str]]:
    """Of a classifier in 16 bits whose loss is in f32, and the type of the scores in memory."""
    rng = np.random.default_rng(0)
    x = oc.data(rng.standard_normal((16, 9)).astype(np.float32), axes="bo", label="x", dtype=dtype)
    with oc.precision(oc.float32, compute=dtype):
        scores = nn.mlp(hid_dims=[8], out_dim=7)(x)
    loss = nn.cross_entropy(oc.cast(scores, oc.float32), oc.data(np.arange(16) % 7, axes="b"))
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=1)
    found = [step() or float(ctx[loss]) for _ in range(3)]
    return found, re.findall(r'"cast\d*" local .*x(\w+)>', step.ir("kernels"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [oc.bfloat16, oc.float16])
def test_steps(dtype: Any, monkeypatch: pytest.MonkeyPatch):
    expected, wide = losses(oc.Context.emulated_gpu(), dtype)
    monkeypatch.setattr(narrow_nodes.NarrowNodesPass.__init__, "__defaults__", (0,))
    found, narrow = losses(oc.Context.emulated_gpu(check=True), dtype)
    assert (wide, narrow) == (["f32"], ["bf16" if dtype is oc.bfloat16 else "f16"])
    assert found == expected
