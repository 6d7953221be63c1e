"""Blocks whose weights are normalized before they are applied."""

from __future__ import annotations

from typing import Any

import ocannl as oc

PER_OUTPUT = "..b.. | ..i.. -> ..o.. => ..o.."


def weight_norm(
    block: oc.Block[..., Any], name: str = "w", *, init: float = 1.0, label: str = "weight_norm"
) -> oc.Block[..., Any]:
    """The block with weights `g * v / |v|` (Salimans and Kingma, 2016): `v` is its parameter `name`, and
    `label.g`: output of `v`, with initial value `init`, the norm for each output.

    Raises `ArgumentError` for a part that there is not.
    """
    v = _weights(block, name)
    with oc.scope(label):
        g = oc.param("g", init, input=[])
    norm = oc.sqrt(oc.einsum(PER_OUTPUT, v * v))
    return block.replace(name, (v * (g / norm)).named(label))


def spectral_norm(
    block: oc.Block[..., Any], name: str = "w", *, epsilon: float = 1e-12, label: str = "spectral_norm"
) -> oc.Block[..., Any]:
    """The block with its parameter `name` divided by its largest singular value (Miyato et al., 2018), as a
    matrix from batch and input axes to output axes.

    The value is estimated by one step of power iteration from the node `label.u`: output, which
    `oc.updates(loss)`, and so `train.grad_update`, keeps for the next; it starts at ones. Raises
    `ArgumentError` for a part that there is not.
    """
    w = _weights(block, name)

    def unit(x: oc.Tensor) -> oc.Tensor:
        norm = oc.sqrt(oc.einsum("... | ... -> ... => |", x * x))
        return oc.stop_gradient(x / oc.maximum(norm, epsilon))

    with oc.scope(label):
        u = oc.node("u", like=oc.einsum(PER_OUTPUT, w), init=1.0)
    right = unit(oc.einsum("..b.. | ..i.. -> ..o..; ..o.. => ..b.. | ..i.. -> ", w, u))
    product = oc.einsum("..b.. | ..i.. -> ..o..; ..b.. | ..i.. -> => ..o..", w, right)
    left = unit(product)
    largest = oc.einsum("..o..; ..o.. => |", left, product)
    divided = (w / largest).named(label)
    with oc.code(f"{label} power iteration") as update:
        u[...] = left
    oc.add_update(divided, update)
    return block.replace(name, divided)


def _weights(block: oc.Block[..., Any], name: str) -> oc.Tensor:
    if not isinstance(block, oc.Block):
        raise oc.ArgumentError(f"weights are normalized of a block, found {type(block).__name__}")
    part = block.parts.get(name)
    if not isinstance(part, oc.Tensor):
        raise oc.ArgumentError(f"{block.title} has no weights `{name}`")
    return part
