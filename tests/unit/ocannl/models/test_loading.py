"""Models from folders: a GPT-2 against NumPy, files in parts, dtypes, and what is wrong with a folder."""

import json
import math
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from support.model_folders import GPT2, gpt2_weights, write_model

import ocannl as oc
from ocannl.execute.files.array_files import StoredArray
from ocannl.models import loading

Array = NDArray[Any]
WEIGHTS = gpt2_weights(GPT2)
MISTRAL = {
    "model_type": "mistral",
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
LONGROPE = {"type": "su", "short_factor": [1.0], "long_factor": [1.0, 2.0, 3.0]}
IDS = np.random.default_rng(2).integers(0, 31, (2, 9))


def gpt2_in_numpy(
    ids: Array, weights: Mapping[str, Array] = WEIGHTS, heads: int = GPT2["n_head"], factors: Any = np.float64
) -> Array:
    """Scores in f64; what weights are multiplied with is rounded to `factors`."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def rounded(x: Array) -> Array:
        return x.astype(np.float32).astype(factors).astype(np.float64) if factors != np.float64 else x

    def linear(x: Array, name: str) -> Array:
        return rounded(x) @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def norm(x: Array, name: str) -> Array:
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    count = ids.shape[1]
    x = w["wte.weight"][ids] + w["wpe.weight"][:count]
    for number in range(GPT2["n_layer"]):
        at = f"h.{number}"
        q, k, v = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, -1)
        q, k, v = (a.reshape(*a.shape[:2], heads, -1) for a in (q, k, v))
        scores = np.einsum("bshd,bthd->bhst", q, k) / math.sqrt(q.shape[-1])
        scores = np.where(np.tri(count), scores, -np.inf)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        chances /= chances.sum(-1, keepdims=True)
        seen = np.einsum("bhst,bthd->bshd", chances, v).reshape(x.shape)
        x = x + linear(seen, f"{at}.attn.c_proj")
        h = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + linear(h, f"{at}.mlp.c_proj")
    return rounded(norm(x, "ln_f")) @ w["wte.weight"].T


def scores_of(folder: Path, **how: Any) -> Array:
    with oc.Context.cpu() as ctx:
        return ctx[oc.models.load(folder, **how)(IDS)]


def test_a_gpt2_is_what_it_is_in_numpy(tmp_path: Path):
    folder = write_model(tmp_path, GPT2, WEIGHTS)
    np.testing.assert_allclose(scores_of(folder), gpt2_in_numpy(IDS), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scores_of(folder, dtype=np.float64), gpt2_in_numpy(IDS), rtol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("activations", [None, "float32"])
def test_weights_of_16_bits_are_computed_with_in_32(tmp_path: Path, dtype: str, activations: str | None):
    """Of bf16, what they are multiplied with is rounded by default; f16 would overflow."""
    rounded = {name: array.astype(getattr(oc, dtype)) for name, array in WEIGHTS.items()}
    (tmp_path / "config.json").write_text(json.dumps({**GPT2, "dtype": dtype}))
    save_file(rounded, tmp_path / "model.safetensors")
    with oc.Context.cpu() as ctx:
        model = oc.models.load(tmp_path, activations=activations)
        assert {p.dtype for p in model.params.values()} == {np.dtype(getattr(oc, dtype))}
        found = ctx[model(IDS)]
    kept = {name: array.astype(np.float32) for name, array in rounded.items()}
    exact, near = gpt2_in_numpy(IDS, kept), gpt2_in_numpy(IDS, kept, factors=oc.bfloat16)
    assert found.dtype == np.float32
    if dtype == "bfloat16" and activations is None:
        # Where f32 rounds to another neighbour than f64, a factor is a step of bf16 away.
        assert abs(found - near).mean() < 0.1 * abs(exact - near).mean()
    else:
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", None])
def test_activations_in_integers_are_for_quantized_weights(tmp_path: Path, dtype: Any):
    folder = write_model(tmp_path, GPT2, WEIGHTS)
    with pytest.raises(oc.ArgumentError, match="in integers beside weights of q8_0 or q4_k or int8"):
        oc.models.load(folder, dtype, activations="int8")
    with pytest.raises(oc.ArgumentError, match="found 'int4'"):
        oc.models.load(folder, dtype, activations="int4")


def test_weights_may_be_in_several_files_with_a_prefix_and_masks(tmp_path: Path):
    write_model(tmp_path, GPT2, {})
    (tmp_path / "model.safetensors").unlink()
    named = {f"transformer.{name}": array for name, array in WEIGHTS.items()}
    named["transformer.h.0.attn.bias"] = np.tri(40, dtype=np.float32)[None, None]
    named["lm_head.weight"] = WEIGHTS["wte.weight"]
    halves = {"a.safetensors": dict([*named.items()][::2]), "b.safetensors": dict([*named.items()][1::2])}
    for file, arrays in halves.items():
        save_file(arrays, tmp_path / file)
    table = {name: file for file, arrays in halves.items() for name in arrays}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    np.testing.assert_allclose(scores_of(tmp_path), gpt2_in_numpy(IDS), rtol=1e-4, atol=1e-4)
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(oc.OcannlError, match=r"has no b\.safetensors"):
        oc.models.load(tmp_path)


def test_what_does_not_fit_is_told_and_nothing_is_set(tmp_path: Path):
    wrong = {**WEIGHTS, "wpe.weight": WEIGHTS["wpe.weight"][:5], "extra": np.zeros(3, np.float32)}
    del wrong["h.1.ln_1.bias"]
    folder = write_model(tmp_path, GPT2, wrong)
    with oc.Context.cpu() as ctx, pytest.raises(oc.StateError) as error:
        oc.models.load(folder, ctx=ctx)
    assert "missing: h.1.ln_1.bias" in str(error.value)
    assert "not in the model: extra" in str(error.value)
    assert "wpe.weight: 16->40 in the model, (5, 16) in the file" in str(error.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "has no config.json"),
        ("{", "is no JSON"),
        ("[]", "is no configuration"),
        (json.dumps({"model_type": "mamba"}), "no model of type 'mamba'"),
        (json.dumps({"model_type": "gpt2"}), "needs `n_embd`"),
        (json.dumps({**GPT2, "activation_function": "gelu_9"}), "no activation 'gelu_9'"),
        (json.dumps({**GPT2, "dtype": "int4"}), "the dtype 'int4'"),
        (json.dumps(GPT2), r"has no model\.safetensors"),
    ],
)
def test_a_wrong_folder_is_an_error(tmp_path: Path, config: str | None, message: str):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(oc.OcannlError, match=message):
        oc.models.load(tmp_path)


@pytest.mark.parametrize(
    ("index", "message"), [("{", "index.json is no JSON"), ("{}", "has no `weight_map`")]
)
def test_a_wrong_index_is_an_error(tmp_path: Path, index: str, message: str):
    folder = write_model(tmp_path, GPT2, WEIGHTS)
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(oc.OcannlError, match=message):
        oc.models.load(folder)


def test_a_dtype_that_there_is_not_is_told(tmp_path: Path):
    folder = write_model(tmp_path, GPT2, WEIGHTS)
    with pytest.raises(oc.ArgumentError, match="q8_0, q4_k, int8 or another dtype, found 'q4_0'"):
        oc.models.load(folder, "q4_0")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rope_parameters": {"rope_type": "ntk"}}, "no scaling 'ntk' of rotary positions"),
        ({"rope_scaling": {"type": "linear"}}, "'linear' of rotary positions needs `factor`"),
        ({"rope_scaling": LONGROPE}, "'longrope' needs 4 short and long factors"),
        ({"layer_types": ["full_attention"]}, "of 2 layers, found"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "of 2 layers, found"),
        ({"num_hidden_layers": "2"}, "`num_hidden_layers` .* is an integer of at least 1, found '2'"),
        ({"hidden_size": 0}, "`hidden_size` .* at least 1, found 0"),
        ({"vocab_size": 32.0}, "`vocab_size` .* is an integer"),
        ({"rms_norm_eps": "tiny"}, "`rms_norm_eps` .* is a number, found 'tiny'"),
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "no mistral whose `quantization_config` is .*gptq",
        ),
        ({"model_type": "bert", "is_decoder": True}, "no bert whose `is_decoder` is True"),
        ({"model_type": "modernbert", "tie_word_embeddings": False}, "`tie_word_embeddings` is False"),
    ],
)
def test_settings_that_no_model_has_are_told(tmp_path: Path, settings: dict[str, Any], message: str):
    (tmp_path / "config.json").write_text(json.dumps(MISTRAL | settings))
    with pytest.raises(oc.OcannlError, match=message):
        oc.models.load(tmp_path)


@pytest.mark.exhaustive
def test_quantized_weights_are_near_to_those_of_the_file(tmp_path: Path):
    config = {**GPT2, "n_embd": 64}
    weights = gpt2_weights(config)
    folder = write_model(tmp_path, config, weights)
    with oc.Context.cpu() as ctx:
        model = oc.models.load(folder, dtype="q8_0")
        assert not [name for name in model.params if name.endswith(".w")]
        assert model.config["n_embd"] == 64
        found = ctx[model(IDS)]
    exact = gpt2_in_numpy(IDS, weights)
    assert abs(found - exact).max() < 0.05 * abs(exact).max()


def test_arrays_of_files_are_let_go_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mapped: list[weakref.ref[Any]] = []
    weights, keep = loading._weights, loading._keep
    counts: list[int] = []

    def noted(stored: StoredArray) -> StoredArray:
        def read() -> Any:
            array: Any = stored.read()
            mapped.append(weakref.ref(array._mmap))
            return array

        return replace(stored, read=read)

    def keeps(*given: Any) -> None:
        keep(*given)
        counts.append(sum(ref() is not None for ref in mapped))

    monkeypatch.setattr(loading, "_weights", lambda folder: {k: noted(v) for k, v in weights(folder).items()})
    monkeypatch.setattr(loading, "_keep", keeps)
    oc.models.load(write_model(tmp_path, GPT2, WEIGHTS))
    assert counts == [*range(len(WEIGHTS), 0, -1)]
