"""Models in files of GGUF, the format of llama.cpp, by the package `gguf`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import ocannl as oc
from ocannl.models.model import Array, Config
from ocannl.program.location import here

COMMON = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "head_dim": "attention.key_length",
}
GPT2 = {
    "n_embd": "embedding_length",
    "n_layer": "block_count",
    "n_head": "attention.head_count",
    "n_positions": "context_length",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
}
SETTINGS: dict[str, Mapping[str, str]] = {"llama": COMMON, "qwen2": COMMON, "qwen3": COMMON, "gpt2": GPT2}
"""The names of settings in a `config.json`, and in a file, by the architecture."""

PREFIXES = {"gpt2": ""}
"""In front of names of parameters, where the package knows them by others than "model."."""

Q8_0, Q4_K = "Q8_0", "Q4_K"
KINDS = {Q8_0: "q8_0", Q4_K: "q4_k"}
"""Types of blocks that are kept as they are."""


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file: its type, its shape, and bytes in rows of blocks."""

    kind: str
    shape: tuple[int, ...]
    rows: Array
    decode: Callable[[], Array]

    @property
    def quantized(self) -> str | None:
        """The format of quantized weights in which it is kept; q8_0 for blocks of other types."""
        return None if self.kind in ("F64", "F32", "F16", "BF16") else KINDS.get(self.kind, "q8_0")

    def kept(self) -> Mapping[str, Array] | None:
        """The arrays of its format, None where it is encoded anew."""
        if self.kind == Q8_0:
            blocks = self.rows.reshape(-1, 34)
            return {"codes": blocks[:, 2:].view(np.int8), "scales": _halves(blocks[:, :2])}
        if self.kind == Q4_K:
            return _q4_k(self.rows.reshape(-1, 144))
        return None

    def with_rows(self, order: Callable[[Array], Array]) -> GgufTensor:
        """With its rows in another order."""
        return GgufTensor(self.kind, self.shape, order(self.rows), lambda: order(self.decode()))


@dataclass(frozen=True)
class GgufModel:
    """The contents of a file: the configuration of a model, and tensors by the names of parameters."""

    config: Config
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufModel:
    """The model of a file, memory-mapped.

    Raises `OcannlError` without the package `gguf`, for what is no such file, and for architectures that
    `SETTINGS` has not.
    """
    try:
        gguf: Any = import_module("gguf")
    except ModuleNotFoundError:
        raise oc.OcannlError(here("a file of GGUF is read by the package gguf: pip install gguf")) from None
    try:
        reader = gguf.GGUFReader(path)
    except (OSError, ValueError) as error:
        raise oc.OcannlError(here(f"{path} is no file of GGUF: {error}")) from None

    def field(name: str) -> Any:
        found = reader.get_field(name)
        return None if found is None else found.contents()

    kind = field("general.architecture")
    if kind not in SETTINGS:
        raise oc.OcannlError(f"{path} has a model of architecture {kind!r}; there are {', '.join(SETTINGS)}")
    found = {name: field(f"{kind}.{key}") for name, key in SETTINGS[kind].items()}
    config: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    tensors = {tensor.name: _tensor(gguf, tensor) for tensor in reader.tensors}
    if "rope_freqs.weight" in tensors or field(f"{kind}.rope.scaling.type") not in (None, "none"):
        raise oc.OcannlError(f"{path} scales rotary positions, which is read from a config.json only")
    config |= {"model_type": kind, "vocab_size": tensors["token_embd.weight"].shape[0]}
    config |= {"tie_word_embeddings": "output.weight" not in tensors}
    if kind == "llama":
        tensors = {name: _llama_order(config, name, tensor) for name, tensor in tensors.items()}
    return GgufModel(config, tensors)


def name_of(model: GgufModel, parameter: str) -> str:
    """The name in a file of a parameter as `config.json`'s folders name it."""
    gguf: Any = import_module("gguf")
    kind, layers = model.config["model_type"], 1 + max(map(_layer, model.tensors))
    known = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, kind.upper()), layers)
    path, _, suffix = f"{PREFIXES.get(kind, 'model.')}{parameter}".rpartition(".")
    path = "lm_head" if path == "model.lm_head" else path
    return f"{known.get_name(path) or path}.{suffix}"


def _layer(name: str) -> int:
    return int(name.split(".")[1]) if name.startswith("blk.") else 0


def _tensor(gguf: Any, tensor: Any) -> GgufTensor:
    def decode() -> Array:
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type)

    # Sizes are those of GGML, the innermost first.
    shape = tuple([int(size) for size in reversed(tensor.shape)])
    return GgufTensor(tensor.tensor_type.name, shape, tensor.data, decode)


def _llama_order(config: Config, name: str, tensor: GgufTensor) -> GgufTensor:
    """Rows of queries and keys as halves of heads; files have the two features of a rotation side by side."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    part = name.split(".")[-2]
    if part not in heads:
        return tensor
    count = config.get(heads[part], config["num_attention_heads"])
    return tensor.with_rows(lambda a: a.reshape(count, -1, 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape))


def _halves(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.float16)


def _q4_k(blocks: Array) -> Mapping[str, Array]:
    """Blocks of 144 bytes: two scales, 8 scales and 8 minima of 6 bits, and 256 numbers of 4."""
    low, high, both = np.split(blocks[:, 4:16].reshape(-1, 3, 4), 3, axis=1)
    scales = np.concatenate([low & 0x3F, (both & 0x0F) | ((low >> 2) & 0x30)], axis=-1)
    mins = np.concatenate([high & 0x3F, (both >> 4) | ((high >> 2) & 0x30)], axis=-1)
    return {
        "codes": blocks[:, 16:],
        "scale": _halves(blocks[:, :2]),
        "min_scale": _halves(blocks[:, 2:4]),
        "scales": scales,
        "mins": mins,
    }
