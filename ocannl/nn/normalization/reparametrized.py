"""Blocks whose weights are normalized before they are applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ocannl as oc

Per: TypeAlias = Literal["output", "channel", "all"]
PER: Mapping[Per, str] = {
    "output": "..b.. | ..i.. -> ..o.. => ..o..",
    "channel": "..b.. | ..k.. c -> ..o.. => c -> ",
    "all": "..b.. | ..i.. -> ..o.. => |",
}
INPUT_SUM = "..b.. | ..i.. -> ..o.. => ..b.. | ..i.. -> "
OPEN_ROW: Mapping[Per, Mapping[str, Any]] = {
    "output": {"input": []},
    "channel": {"output": []},
    "all": {"input": [], "output": []},
}


@dataclass(frozen=True)
class Normalized:
    """The parts that normalized weights are computed of: the weights as they are trained, and what each
    output, each channel of the input, or all of them have in common.
    """

    weights: oc.Tensor
    further: Mapping[str, oc.Tensor]
    per: Per


def weight_norm(
    block: oc.Block[..., Any],
    name: str = "w",
    *,
    per: Per = "output",
    init: float = 1.0,
    label: str = "weight_norm",
) -> oc.Block[..., Any]:
    """The block with weights `g * v / |v|` (Salimans and Kingma, 2016): `v` is its parameter `name`, and
    `label.g`: output of `v`, with initial value `init`, the norm for each output.

    There is one norm for each channel of the input, the last axis of its row, with `per="channel"`, and one
    for all weights with `per="all"`. Raises `ArgumentError` for a part that does not exist.
    """
    v = _weights(block, name)
    if per not in PER:
        raise oc.ArgumentError(f"a norm is per {', '.join(PER)}, found {per!r}")
    with oc.scope(label):
        g = oc.param("g", init, **OPEN_ROW[per])
    norm = oc.sqrt(oc.einsum(PER[per], v * v))
    scaled = (v * (g / norm)).named(label)
    scaled.ir_value.normalized = Normalized(v, {"g": g}, per)
    return block.replace(name, scaled)


def spectral_norm(
    block: oc.Block[..., Any],
    name: str = "w",
    *,
    steps: int = 1,
    epsilon: float = 1e-12,
    label: str = "spectral_norm",
) -> oc.Block[..., Any]:
    """The block with its parameter `name` divided by its largest singular value (Miyato et al., 2018), as a
    matrix from batch and input axes to output axes.

    The value is estimated by `steps` of power iteration, each from the vector of inputs to that of outputs
    and back. The former is the node `label.v`, starts at ones, and `oc.updates(loss)`, and so
    `train.grad_update`, keeps it for the next. With no steps it is taken as it is, and the vector of outputs
    from a node `label.u`: both come from another module. Raises `ArgumentError` where no part has the name.
    """
    w = _weights(block, name)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise oc.ArgumentError(f"the steps of power iteration are an int from 0, found {steps!r}")
    with oc.scope(label):
        v = oc.node("v", like=oc.einsum(INPUT_SUM, w), init=1.0 if steps else None)
        kept = {"v": v} if steps else {"u": oc.node("u", like=oc.einsum(PER["output"], w)), "v": v}
    left, right = _iterated(w, v, steps, epsilon) if steps else (kept["u"], v)
    divided = (w / oc.einsum("..o..; ..o.. => |", left, _product(w, right))).named(label)
    divided.ir_value.normalized = Normalized(w, kept, "output")
    if steps:
        with oc.code(f"{label} power iteration") as update:
            v[...] = right
        oc.add_update(divided, update)
    return block.replace(name, divided)


def _iterated(w: oc.Tensor, right: oc.Tensor, steps: int, epsilon: float) -> tuple[oc.Tensor, oc.Tensor]:
    """The vectors of outputs and of inputs after steps of power iteration."""
    left = _unit(_product(w, right), epsilon)
    right = _unit(oc.einsum("..b.. | ..i.. -> ..o..; ..o.. => ..b.. | ..i.. -> ", w, left), epsilon)
    return _iterated(w, right, steps - 1, epsilon) if steps > 1 else (left, right)


def _product(w: oc.Tensor, right: oc.Tensor) -> oc.Tensor:
    return oc.einsum("..b.. | ..i.. -> ..o..; ..b.. | ..i.. -> => ..o..", w, right)


def _unit(x: oc.Tensor, epsilon: float) -> oc.Tensor:
    """A vector divided by its length, as a constant."""
    norm = oc.sqrt(oc.einsum("... | ... -> ... => |", x * x))
    return oc.stop_gradient(x / oc.maximum(norm, epsilon))


def _weights(block: oc.Block[..., Any], name: str) -> oc.Tensor:
    if not isinstance(block, oc.Block):
        raise oc.ArgumentError(f"weights are normalized of a block, found {type(block).__name__}")
    part = block.parts.get(name)
    if not isinstance(part, oc.Tensor):
        raise oc.ArgumentError(f"{block.title} has no weights `{name}`")
    return part
