"""Models of experts from folders: joined weights, what is missing, dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.model_folders import write_model

import ocannl as oc

WIDTH, HIDDEN, EXPERTS = 32, 64, 3
CONFIG: dict[str, Any] = {
    "model_type": "mixtral",
    "vocab_size": 20,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "hidden_act": "silu",
}
IDS = np.array([[1, 5, 2, 7]])


def weights() -> dict[str, NDArray[Any]]:
    """The arrays of a Mixtral by the names of its published file."""
    at, square = "model.layers.0", (WIDTH, WIDTH)
    sizes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (20, WIDTH)}
    sizes |= {f"{at}.self_attn.{name}_proj.weight": square for name in "qkvo"}
    sizes[f"{at}.block_sparse_moe.gate.weight"] = (EXPERTS, WIDTH)
    for k in range(EXPERTS):
        own = {"w1": (HIDDEN, WIDTH), "w2": (WIDTH, HIDDEN), "w3": (HIDDEN, WIDTH)}
        sizes |= {f"{at}.block_sparse_moe.experts.{k}.{name}.weight": size for name, size in own.items()}
    norms = (f"{at}.input_layernorm", f"{at}.post_attention_layernorm", "model.norm")
    sizes |= {f"{name}.weight": (WIDTH,) for name in norms}
    sizes["lm_head.weight"] = (20, WIDTH)
    rng = np.random.default_rng(4)
    return {name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}


def test_weights_of_experts_are_joined(tmp_path: Path):
    found = weights()
    with oc.Context.cpu(1) as ctx:
        model = oc.models.load(write_model(tmp_path, CONFIG, found))
        params = {name: np.asarray(ctx[p]) for name, p in model.params.items()}
    assert params["layers.0.mlp.w_in"].shape == (EXPERTS, 2 * HIDDEN, WIDTH)
    for k in range(EXPERTS):
        own = {name: found[f"model.layers.0.block_sparse_moe.experts.{k}.w{name}.weight"] for name in "123"}
        np.testing.assert_array_equal(params["layers.0.mlp.w_in"][k], np.concatenate([own["1"], own["3"]]))
        np.testing.assert_array_equal(params["layers.0.mlp.w_out"][k], own["2"])


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "tolerance"), [(oc.bfloat16, 0.1), ("q8_0", 0.1)])
def test_fewer_bits(tmp_path: Path, dtype: Any, tolerance: float):
    folder = write_model(tmp_path, CONFIG, weights())
    with oc.Context.cpu(1) as ctx:
        exact = ctx[oc.models.load(folder)(IDS)]
        rounded = ctx[oc.models.load(folder, dtype=dtype)(IDS)]
    assert 0 < np.abs(rounded - exact).max() < tolerance * np.abs(exact).max()


def test_an_expert_that_is_missing(tmp_path: Path):
    found = weights()
    del found["model.layers.0.block_sparse_moe.experts.1.w3.weight"]
    with oc.Context.cpu(1), pytest.raises(oc.StateError) as error:
        oc.models.load(write_model(tmp_path, CONFIG, found))
    assert "missing: layers.0.mlp.w_in" in str(error.value)
    assert "not in the model: layers.0.block_sparse_moe.experts.1.w1.weight" in str(error.value)


def test_an_expert_of_another_size(tmp_path: Path):
    found = weights()
    name = "model.layers.0.block_sparse_moe.experts.2.w1.weight"
    found[name] = found[name][:-1]
    with oc.Context.cpu(1), pytest.raises(oc.StateError, match=r"missing: layers\.0\.mlp\.w_in"):
        oc.models.load(write_model(tmp_path, CONFIG, found))
