"""Training steps of models whose parameters are not all in layers: they are folded, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from support.layered import WIDTH, product, relu, residual, stack

import ocannl as oc
from ocannl import nn, train
from ocannl.lowering.pipelines import passes_until, run_passes
from ocannl.passes.texpr.fold_layers import fold_layers
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.program.module.extract import extract

UPDATES: dict[str, Callable[[oc.Tensor], oc.Code]] = {
    "sgd": lambda loss: train.sgd_update(loss, learning_rate=0.1),
    "momentum": lambda loss: train.sgd_update(loss, learning_rate=0.1, momentum=0.9),
    "adam": lambda loss: train.adam_update(loss, learning_rate=1e-2),
}


def seven(x: oc.Tensor) -> oc.Tensor:
    """Small layers, where these are compiled."""
    return stack(residual([product, relu]))(x, 7)


def step_of(
    update: str, is_tied: bool, layers: Callable[[oc.Tensor], oc.Tensor] | None = None
) -> tuple[oc.Tensor, oc.Code]:
    ids = oc.data(np.arange(10).reshape(2, 5) % 7, axes="bb", label="ids")
    embed, decode = nn.embedding(num=7, dim=WIDTH), layers or nn.decoder_only(7, 2, 4, 4, 16)
    hidden = decode(embed(ids))
    loss = nn.cross_entropy(embed.w @ hidden if is_tied else nn.linear(out_dim=7)(hidden), ids)
    return loss, train.grad_update(loss) + UPDATES[update](loss)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("update", UPDATES)
def test_a_model_with_an_embedding_is_folded(update: str, is_tied: bool):
    """Its moments begin with the name of a parameter that the first layer alone uses."""
    module = extract(step_of(update, is_tied)[1].statements, "step").module
    run_passes(module, passes_until("cpu", FoldLayersPass.name))
    assert "layers = [[" in str(module)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("update", ["momentum", "adam"])
def test_folded_steps_compute_the_same(update: str):
    found: list[dict[str, np.ndarray]] = []
    for least in (fold_layers.LEAST_LAYERS, 1000):
        with patch.object(fold_layers, "LEAST_LAYERS", least):
            ctx = oc.Context.cpu(1)
            loss, code = step_of(update, is_tied=True, layers=seven)
            ctx.init_params(loss)
            step = ctx.compile(code, "step")
            for _ in range(3):
                step()
            found.append({name: ctx[p] for name, p in oc.params(loss).items()})
    folded, plain = found
    assert folded.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(folded[name], value, err_msg=name)
