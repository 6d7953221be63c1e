"""Decoding compiles a few of equal layers for all."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import ocannl as oc
from ocannl.lowering.pipelines import PIPELINES, run_passes
from ocannl.models.architectures import architecture, built
from ocannl.models.model import Model
from ocannl.models.writing import Writer
from ocannl.passes.analysis.nests import functions, steps
from ocannl.passes.loops.unfold_layers import UnfoldLayersPass
from ocannl.passes.texpr.fold_layers import fold_layers
from ocannl.program.module.extract import extract

COMMON = {"vocab_size": 20}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 8, "n_head": 2, "n_positions": 32},
    "llama": {
        "hidden_size": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 12,
        "tie_word_embeddings": True,
    },
}
COUNTS = {"gpt2": "n_layer", "llama": "num_hidden_layers"}
PASSES = PIPELINES["cpu"]


def writer_of(kind: str, layers: int, ctx: oc.Context) -> Writer:
    config = {"model_type": kind, COUNTS[kind]: layers, **COMMON, **CONFIGS[kind]}
    return Writer(Model(built(architecture(config), config), config), ctx)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", CONFIGS)
def test_layers_with_caches_are_folded(kind: str):
    """Writes of caches and norms of one position are layers, too, and stay equal down to nests."""
    writer = writer_of(kind, 7, oc.Context.cpu(1))
    state = writer.state(1, (), is_even=True)
    step = state.step(writer.model, writer.cache(16).at(state.place, 16))
    module = extract(step.statements, "step").module
    unfold, counts = PASSES.index(UnfoldLayersPass), list[int]()
    for passes in (PASSES[:unfold], [UnfoldLayersPass]):
        run_passes(module, passes)
        counts.append(len([*steps(functions(module)[0])]))
    folded, unfolded = counts
    assert folded < 4 / 5 * unfolded


@pytest.mark.exhaustive
def test_folding_changes_no_keys():
    found: list[list[bytes]] = []
    for least in (6, 1000):
        with patch.object(fold_layers, "LEAST_LAYERS", least):
            oc.seed(1)
            ctx = oc.Context.cpu(1)
            writer = writer_of("llama", 7, ctx)
            cache, state = writer.cache(16), writer.state(1, (), is_even=True)
            code = state.step(writer.model, cache.at(state.place, 16))
            ctx.init_params(code)
            state.begin(ctx, np.array(0, np.int32), np.array([3], np.int32), 0, [])
            ctx.compile(code).run_loop(epochs=3)
            found.append([ctx[memory].tobytes() for kept in cache.kept.values() for memory in kept])
    assert len(found[0]) == 14
    assert found[0] == found[1]
