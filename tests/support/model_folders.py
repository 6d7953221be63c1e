"""Folders of small models with random weights, as `transformers` saves them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": 31,
    "n_positions": 40,
    "activation_function": "gelu_new",
}

CHARACTERS = " .abcdefghijklmnopqrstuvwxyz"


def gpt2_weights(config: Mapping[str, Any], seed: int = 1) -> dict[str, NDArray[Any]]:
    """The arrays of a GPT-2 by the names of its published file."""
    rng, width = np.random.default_rng(seed), config["n_embd"]
    sizes = {"wte.weight": (config["vocab_size"], width), "wpe.weight": (config["n_positions"], width)}
    for number in range(config["n_layer"]):
        layers = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width)}
        layers |= {"mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width)}
        for name, (into, out) in layers.items():
            sizes |= {f"h.{number}.{name}.weight": (into, out), f"h.{number}.{name}.bias": (out,)}
        for norm in ("ln_1", "ln_2"):
            sizes |= {f"h.{number}.{norm}.{part}": (width,) for part in ("weight", "bias")}
    sizes |= {f"ln_f.{part}": (width,) for part in ("weight", "bias")}
    return {name: rng.normal(0, 0.5, size).astype(np.float32) for name, size in sizes.items()}


def write_model(folder: Path, config: Mapping[str, Any], weights: Mapping[str, NDArray[Any]]) -> Path:
    """Writes a folder with one file of weights."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(dict(weights), folder / "model.safetensors")
    return folder


def folder_with_tokenizer(folder: Path) -> Path:
    """A small GPT-2, and a tokenizer of characters."""
    tokenizers: Any = pytest.importorskip("tokenizers")
    write_model(folder, {**GPT2, "eos_token_id": 1}, gpt2_weights(GPT2))
    vocabulary = {character: number for number, character in enumerate(CHARACTERS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
