"""Loading a model from a folder as Hugging Face's `transformers` saves it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

import ocannl as oc
from ocannl.execute.files.array_files import StoredArray
from ocannl.execute.files.sharded_files import open_saved
from ocannl.models.architectures import Architecture, Stored, architecture, built
from ocannl.models.experts import Stacked
from ocannl.models.gguf_files import name_of, read_gguf
from ocannl.models.model import Array, Config, Model, settings_of
from ocannl.nn.weights.quantized import is_rounded, with_weights
from ocannl.nn.weights.quantized_weights import FORMATS, Weights
from ocannl.program import graph

# What OCANNL calls a parameter of a layer, and a file does.
SUFFIXES = {"w": "weight", "b": "bias", "gain": "weight", "offset": "bias"}
LAST = re.compile(r"\.(\w+)$")
TIED = "lm_head.weight"


def load(
    folder: str | Path,
    dtype: DTypeLike | None = None,
    ctx: oc.Context | None = None,
    *,
    activations: str | None = None,
) -> Model:
    """The model of a folder, with its parameters set in a context, by default the default one.

    The folder has a `config.json` and weights: `model.safetensors`, or the files that
    `model.safetensors.index.json` names. They are memory-mapped and kept in `dtype`, by default that of the
    configuration; weights of fewer than 32 bits are read as such, and computed with in f32. What those in
    bf16 are multiplied with is rounded to bf16, unless `activations="float32"`. With "q8_0", "q4_k" or
    "int8", those of linear layers and embeddings are quantized as by `nn.quantized`, which says what
    `activations="int8"` is.

    Raises `OcannlError` for a folder without these, and for a configuration that no model here fits,
    `StateError` for weights that are missing, too many or of another shape; then nothing is set.

    A file of GGUF is loaded as well, by the package `gguf`: of Llama, Qwen 2 and 3, and GPT-2. Its blocks
    `Q8_0` and `Q4_K` are kept as they are, others as "q8_0", and floats in f32; or all in `dtype`.
    """
    folder = Path(folder)
    if folder.suffix == ".gguf":
        return load_gguf(folder, dtype, ctx, activations)
    config = _config(folder)
    kind = architecture(config)
    quantized = _quantized(dtype)
    rounds = _in_integers(activations, quantized is not None)
    model = _built(kind, config, _dtype(config, None if quantized else dtype), activations)
    stored: dict[str, Array] = {}
    for name, array in _weights(folder).items():
        if not re.fullmatch(kind.left_out, name := name.removeprefix(kind.prefix)):
            stored |= kind.convert(config, name, array.read())
    joined = kind.join(config, stored)
    stored.clear()
    _check(model, joined, folder)
    return _set(ctx or oc.default_context(), model, joined, quantized, rounds)


def _config(folder: Path) -> Config:
    try:
        return settings_of(folder / "config.json")
    except OSError:
        raise oc.OcannlError(f"{folder} is no folder of a model: it has no config.json") from None


def _dtype(config: Config, given: DTypeLike | None) -> np.dtype[Any]:
    named = config.get("dtype") or config.get("torch_dtype") or "float32"
    known = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": oc.bfloat16}
    if given is None and named not in known:
        raise oc.OcannlError(f"the configuration names the dtype {named!r}; give one: load(..., dtype=...)")
    try:
        return np.dtype(known[named] if given is None else given)
    except TypeError:
        kinds = ", ".join([*known, *FORMATS])
        raise oc.ArgumentError(f"weights are kept as {kinds} or another dtype, found {given!r}") from None


def _weights(folder: Path) -> dict[str, StoredArray]:
    """The arrays of a folder's files by name, none of them read yet."""
    index = folder / "model.safetensors.index.json"
    files: Iterable[str] = ["model.safetensors"]
    if index.exists():
        table: Any = settings_of(index).get("weight_map")
        if not isinstance(table, dict):
            raise oc.OcannlError(f"{index} has no `weight_map`: files by the names of weights")
        files = sorted({*cast(Mapping[str, str], table).values()})
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise oc.OcannlError(f"{folder} has no {', '.join(missing)}; weights are in safetensors files")
    return {**open_saved(index if index.exists() else folder / "model.safetensors").arrays}


def _file_name(name: str) -> str:
    """The name of a parameter in a file."""
    return LAST.sub(lambda last: f".{SUFFIXES.get(last[1], last[1])}", name)


def load_gguf(
    path: Path, dtype: DTypeLike | None, ctx: oc.Context | None, activations: str | None = None
) -> Model:
    """The model of a file of GGUF. With a dtype, its blocks are decoded and kept as that."""
    read, kind = read_gguf(path), _quantized(dtype)
    rounds = _in_integers(activations, kind is not None or dtype is None)
    kept = np.dtype(np.float32 if kind or dtype is None else dtype)
    model = _built(architecture(read.config), read.config, kept, activations)
    tensors = {name: read.tensors.get(name_of(read, _file_name(name))) for name in model.params}
    if missing := [f"missing: {name}" for name, tensor in tensors.items() if tensor is None]:
        raise oc.StateError("\n  ".join([f"nothing was loaded from {path}", *missing]))
    found = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    kinds = {name: tensor.quantized if dtype is None else kind for name, tensor in found.items()}
    block, weights = with_weights(model, kinds.__getitem__, rounds)
    ctx = ctx or oc.default_context()
    for name, param in model.params.items():
        kept, tensor = weights.get(param), found[name]
        arrays = tensor.kept() if dtype is None else None
        if kept is not None and arrays is not None:
            kept.keep(ctx, arrays)
        else:
            _keep(ctx, param, kept, tensor.decode())
    return Model(block.function, read.config)


def _quantized(dtype: DTypeLike | None) -> str | None:
    """The format of quantized weights that stands in place of a dtype."""
    return dtype if isinstance(dtype, str) and dtype in FORMATS else None


def _in_integers(activations: str | None, is_possible: bool) -> bool:
    """Whether activations are rounded to integers. Raises `ArgumentError` for what they cannot be."""
    rounds = activations != "float32" and is_rounded(activations)
    if rounds and not is_possible:
        raise oc.ArgumentError(f"activations are in integers beside weights of {' or '.join(FORMATS)}")
    return rounds


def _built(kind: Architecture, config: Config, kept: np.dtype[Any], activations: str | None) -> Model:
    factors = kept if kept == oc.bfloat16 and activations is None else None
    with oc.precision(kept, compute=np.float32 if kept.itemsize < 4 else None, factors=factors):
        return Model(built(kind, config), config)


def _keep(ctx: oc.Context, param: oc.Tensor, kept: Weights | None, array: Array) -> None:
    """Sets a parameter, or quantized weights in its place."""
    array = array.reshape(param.shape.array)
    if kept is None:
        ctx[param] = array
    else:
        kept.set(ctx, array)


def _check(model: Model, stored: Mapping[str, Stored], folder: Path) -> None:
    """Raises `StateError` where arrays are not those of the parameters."""
    params = _params(model)
    wrong = [f"missing: {name}" for name in params if name not in stored]
    # A file may have the tied weights twice.
    wrong += [f"not in the model: {name}" for name in stored if name not in params and name != TIED]
    for name in params.keys() & stored.keys():
        if not _fits(params[name], stored[name]):
            wrong.append(f"{name}: {params[name].shape} in the model, {stored[name].shape} in the file")
    if wrong:
        raise oc.StateError("\n  ".join([f"nothing was loaded from {folder}", *sorted(wrong)]))


def _params(model: Model) -> dict[str, oc.Tensor]:
    """The parameters by the names that they have in a file."""
    return {_file_name(name): tensor for name, tensor in model.params.items()}


def _set(ctx: oc.Context, model: Model, stored: dict[str, Stored], kind: str | None, rounds: bool) -> Model:
    """The model with its parameters set, those of its linear layers as quantized weights of a kind. Arrays
    are let go in turn, so that no more than one of them is in memory twice.
    """
    weights: Mapping[oc.Tensor, Weights] = {}
    made = model
    if kind is not None:
        block, weights = with_weights(model, lambda name: kind, rounds)
        made = Model(block.function, model.config)
    for name, param in _params(model).items():
        array = stored.pop(name)
        _keep(ctx, param, weights.get(param), array.read() if isinstance(array, Stacked) else array)
    return made


def _fits(tensor: oc.Tensor, array: Stored) -> bool:
    """Whether an array has one axis for each row of a tensor, or all its axes."""
    shape = graph.known_shape(tensor.ir_value)
    flat = tuple([math.prod(row.sizes) for row in (shape.batch, shape.output, shape.input) if row.axes])
    return array.shape in (flat, tensor.shape.array)
