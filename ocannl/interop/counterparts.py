"""The PyTorch modules that blocks of `nn` correspond to, and how the layouts of their parameters differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.program import graph
from ocannl.program.blocks.block import Block

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
Rows: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""The sizes of an output and an input row."""


@dataclass(frozen=True)
class Converted:
    """An array in the order of memory, and the rows that its axes make where they are not known."""

    array: Array
    rows: Rows
    batch: Sequence[int] = ()


Parts: TypeAlias = Mapping[str, oc.Tensor]


@dataclass(frozen=True)
class Counterpart:
    """A module of PyTorch that computes what a block does.

    Attributes:
        names: what of it a block with these parts needs, with the parts that each is for.
        ours: the arrays of the block for those of the module.
        theirs: the arrays of the module for those of the block.
        is_flat: whether each row of the block is one axis of the module.
    """

    names: Callable[[Parts], Mapping[str, Sequence[str]]]
    ours: Callable[[Block[..., Any], Arrays], Mapping[str, Converted]]
    theirs: Callable[[Block[..., Any], Arrays], Arrays]
    is_flat: bool = False


def _renamed(
    names: Mapping[str, str],
    ours: Callable[[Array], Converted],
    theirs: Callable[[Array, str], Array] | None = None,
) -> Counterpart:
    """A module whose arrays are those of the block, each by itself."""
    back = {part: name for name, part in names.items()}
    return Counterpart(
        lambda parts: {name: [part] for name, part in names.items() if part in parts},
        lambda block, arrays: {names[name]: ours(array) for name, array in arrays.items()},
        lambda block, arrays: {
            back[part]: array if theirs is None else theirs(array, part) for part, array in arrays.items()
        },
        is_flat=theirs is None,
    )


def _matrix(array: Array) -> Converted:
    """A matrix out x in, or a vector out."""
    return Converted(array, (array.shape[:1], array.shape[1:]))


def _row(array: Array) -> Converted:
    return Converted(array, (array.shape, ()))


def _positions(array: Array) -> Converted:
    """Vectors for positions, which are a batch axis."""
    return Converted(array, (array.shape[1:], ()), array.shape[:1])


LINEAR = _renamed({"weight": "w", "bias": "b"}, _matrix)
EMBEDDING = _renamed({"weight": "w"}, _matrix)
POSITIONS = _renamed({"weight": "w"}, _positions)
NORM = _renamed({"weight": "gain", "bias": "offset"}, _row)
BATCH_NORM = _renamed(
    {"weight": "gain", "bias": "offset", "running_mean": "running_mean", "running_var": "running_variance"},
    _row,
)


def _conv_ours(array: Array) -> Converted:
    """`out, in, kernel...` as `out, kernel..., in`."""
    if array.ndim == 1:
        return _row(array)
    moved = np.moveaxis(array, 1, -1)
    return Converted(moved, (moved.shape[:1], moved.shape[1:]))


def _conv_theirs(array: Array, part: str) -> Array:
    return array if part == "b" else np.moveaxis(array, -1, 1)


CONV = _renamed({"weight": "w", "bias": "b"}, _conv_ours, _conv_theirs)


def _groups(block: Block[..., Any]) -> int:
    return 1 if block.configuration is None else int(block.configuration.named.get("groups", 1))


def _transposed_ours(block: Block[..., Any], arrays: Arrays) -> Mapping[str, Converted]:
    """`g in, out, kernel...` as `g out, kernel..., in`."""
    found: dict[str, Converted] = {}
    for name, array in arrays.items():
        if name == "weight":
            groups = _groups(block)
            split = array.reshape(groups, -1, *array.shape[1:])
            moved = np.moveaxis(split, 1, -1)
            array = moved.reshape(-1, *moved.shape[2:])
            found["w"] = Converted(array, (array.shape[:1], array.shape[1:]))
        else:
            found["b"] = _row(array)
    return found


def _transposed_theirs(block: Block[..., Any], arrays: Arrays) -> Arrays:
    found = {"bias": arrays["b"]} if "b" in arrays else {}
    w = arrays["w"]
    split = np.moveaxis(w.reshape(_groups(block), -1, *w.shape[1:]), -1, 1)
    return {"weight": split.reshape(-1, *split.shape[2:]), **found}


CONV_TRANSPOSE = Counterpart(CONV.names, _transposed_ours, _transposed_theirs)


# Attention has the products of queries, keys and values in one array.
HEADS = ("q", "k", "v")
BIAS_KV = ("bias_k", "bias_v")


def _attention_names(parts: Parts) -> Mapping[str, Sequence[str]]:
    biased = "b_q" in parts
    joined: dict[str, Sequence[str]] = {"in_proj_weight": [f"w_{head}" for head in HEADS]}
    if _looks_elsewhere(parts):
        joined = {f"{head}_proj_weight": [f"w_{head}"] for head in HEADS}
    return {
        **joined,
        "out_proj.weight": ["w_o"],
        **({"in_proj_bias": [f"b_{head}" for head in HEADS], "out_proj.bias": ["b_o"]} if biased else {}),
        **{name: [name] for name in BIAS_KV if name in parts},
    }


def _looks_elsewhere(parts: Parts) -> bool:
    """Whether keys are made of other features than queries, so that PyTorch keeps their products apart."""
    queries, keys = (graph.known_shape(parts[name].ir_value).input for name in ("w_q", "w_k"))
    return queries.is_final and keys.is_final and queries.sizes != keys.sizes


def _attention_ours(block: Block[..., Any], arrays: Arrays) -> Mapping[str, Converted]:
    heads = _setting(block, "num_heads")
    found: dict[str, Converted] = {}
    for name, array in arrays.items():
        kind = "w" if name.endswith("weight") else "b"
        if name in BIAS_KV:
            split = array.reshape(heads, -1)
            found[name] = Converted(split, (split.shape, ()))
        elif name.startswith("out_proj"):
            split = array.reshape(-1, heads, array.shape[1] // heads) if kind == "w" else array
            found[f"{kind}_o"] = Converted(split, (split.shape[:1], split.shape[1:]))
        elif name.endswith("_proj_weight") and name[0] in HEADS:
            split = array.reshape(heads, -1, array.shape[1])
            found[f"w_{name[0]}"] = Converted(split, (split.shape[:2], split.shape[2:]))
        else:
            for head, part in zip(HEADS, np.split(array, 3), strict=True):
                split = part.reshape(heads, -1, *part.shape[1:])
                found[f"{kind}_{head}"] = Converted(split, (split.shape[:2], split.shape[2:]))
    return found


def _attention_theirs(block: Block[..., Any], arrays: Arrays) -> Arrays:
    def flat(kind: str) -> list[Array]:
        return [a.reshape(-1, *a.shape[2:]) for a in (arrays[f"{kind}_{head}"] for head in HEADS)]

    weights, w_o = flat("w"), arrays["w_o"]
    if len({len(weight) for weight in weights}) > 1:
        raise oc.ArgumentError(
            f"PyTorch's attention has as many keys and values as queries, of one size; {block.title} has not"
        )
    is_one = len({weight.shape for weight in weights}) == 1
    apart = {f"{head}_proj_weight": weight for head, weight in zip(HEADS, weights, strict=True)}
    found = {"in_proj_weight": np.concatenate(weights)} if is_one else apart
    found |= {"out_proj.weight": w_o.reshape(len(w_o), -1)}
    if "b_q" in arrays:
        found |= {"in_proj_bias": np.concatenate(flat("b")), "out_proj.bias": arrays["b_o"]}
    return found | {name: arrays[name].reshape(1, 1, -1) for name in BIAS_KV if name in arrays}


def _setting(block: Block[..., Any], name: str) -> int:
    assert block.configuration is not None
    return int(block.configuration.named[name])


ATTENTION = Counterpart(_attention_names, _attention_ours, _attention_theirs)


# PyTorch's recurrent layers have two biases, whose sum counts but in the new state of a GRU.
RECURRENT = {"w_x": "weight_ih", "w_h": "weight_hh", "w_p": "weight_hr"}


def _recurrent_parts(parts: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The layer and direction of each part as PyTorch calls it, `l0_reverse`, and its own name."""
    found: dict[str, tuple[str, str]] = {}
    for part in parts:
        layer, _, own = part.rpartition(".")
        found[part] = layer.removeprefix("layers[").removesuffix("]") or "l0", own
    return found


def _recurrent_names(parts: Parts) -> Mapping[str, Sequence[str]]:
    known = _recurrent_parts(parts)
    found: dict[str, Sequence[str]] = {}
    for part, (layer, own) in known.items():
        if own in RECURRENT:
            found[f"{RECURRENT[own]}_{layer}"] = [part]
        elif own == "b":
            further = [p for p, other in known.items() if other == (layer, "b_h")]
            found |= {f"bias_ih_{layer}": [part], f"bias_hh_{layer}": [part, *further]}
    return found


def _recurrent_ours(gates: int) -> Callable[[Block[..., Any], Arrays], Mapping[str, Converted]]:
    def split(array: Array, own: str) -> Converted:
        if own == "w_p" or gates == 1:
            return Converted(array, (array.shape[:1], array.shape[1:]))
        parts = array.reshape(gates, -1, *array.shape[1:])
        return Converted(parts, (parts.shape[:2], parts.shape[2:]))

    def ours(block: Block[..., Any], arrays: Arrays) -> Mapping[str, Converted]:
        found: dict[str, Converted] = {}
        for name, array in arrays.items():
            kind, _, layer = name.partition("_l")
            path = f"layers[l{layer}]." if _is_stacked(block) else ""
            own = next((own for own, theirs in RECURRENT.items() if theirs == kind), None)
            if own is not None:
                found[path + own] = split(array, own)
            elif kind == "bias_ih":
                hidden = arrays[f"bias_hh_l{layer}"].copy()
                if gates == GRU_GATES:
                    new = slice(2 * len(hidden) // 3, None)
                    found[f"{path}b_h"] = _row(hidden[new].copy())
                    hidden[new] = 0
                found[f"{path}b"] = split(array + hidden, "b")
        return found

    return ours


def _recurrent_theirs(block: Block[..., Any], arrays: Arrays) -> Arrays:
    found: dict[str, Array] = {}
    for part, (layer, own) in _recurrent_parts(arrays).items():
        array = arrays[part]
        flat = (
            array if own == "w_p" or array.ndim == 1 + (own != "b") else array.reshape(-1, *array.shape[2:])
        )
        if own in RECURRENT:
            found[f"{RECURRENT[own]}_{layer}"] = flat
        elif own == "b":
            hidden = np.zeros_like(flat)
            further = arrays.get(f"{part}_h")
            if further is not None:
                hidden[-len(further) :] = further
            found |= {f"bias_ih_{layer}": flat, f"bias_hh_{layer}": hidden}
    return found


def _is_stacked(block: Block[..., Any]) -> bool:
    """Whether a recurrent block has several layers or directions."""
    how = block.configuration
    assert how is not None
    return int(how.named.get("layers", 1)) > 1 or bool(how.named.get("bidirectional", False))


GRU_GATES = 3
LSTM, GRU, RNN = (
    Counterpart(_recurrent_names, _recurrent_ours(gates), _recurrent_theirs) for gates in (4, GRU_GATES, 1)
)

COUNTERPARTS: Mapping[str, Counterpart] = {
    "linear": LINEAR,
    "mlp_layer": LINEAR,
    "embedding": EMBEDDING,
    "learned_positions": POSITIONS,
    "layer_norm": NORM,
    "rms_norm": NORM,
    "group_norm": NORM,
    "instance_norm": NORM,
    "batch_norm1d": BATCH_NORM,
    "batch_norm2d": BATCH_NORM,
    **{f"conv{n}d": CONV for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": CONV_TRANSPOSE for n in (1, 2, 3)},
    "multi_head_attention": ATTENTION,
    "cross_attention": ATTENTION,
    "lstm": LSTM,
    "gru": GRU,
    "rnn": RNN,
}

_IN_A_LAYER = {
    "attend": "self_attn",
    "look": "multihead_attn",
    "feed.into": "linear1",
    "feed.out": "linear2",
    **{f"{part}.norm": f"norm{k}" for k, part in enumerate(("first", "second", "third"), 1)},
}
_IN_A_STACK = {"last": "norm"}
MODULES: Mapping[str, Mapping[str, str]] = {
    "encoder_layer": _IN_A_LAYER,
    "decoder_layer": _IN_A_LAYER,
    "transformer_encoder": _IN_A_STACK,
    "transformer_decoder": _IN_A_STACK,
    "decoder_only": _IN_A_STACK,
}
"""The modules of PyTorch that parts of a block are, where they have other names there."""


def modules_in(block: Block[..., Any]) -> Mapping[str, str]:
    """The names that PyTorch gives parts of a block."""
    return MODULES.get(_block_of_nn(block) or "", {})


def counterpart_of(block: Block[..., Any]) -> Counterpart | None:
    """The PyTorch counterpart of a block, by its configuration."""
    return COUNTERPARTS.get(_block_of_nn(block) or "")


def _block_of_nn(block: Block[..., Any]) -> str | None:
    """The name of the function of `nn` that made a block."""
    how = block.configuration
    if how is None or not how.configure.__module__.startswith("ocannl.nn."):
        return None
    return how.configure.__name__
