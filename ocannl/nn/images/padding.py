"""Cells around images: zeros, or the image's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here

Amounts: TypeAlias = tuple[int, int]
"""Cells before and after an axis; negative numbers cut off."""
Mode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]

# NumPy's names for what is repeated.
OF_NUMPY: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def check_mode(mode: str) -> Mode:
    """A mode of padding. Raises `ArgumentError` for another."""
    known = ("zeros", *OF_NUMPY)
    if mode not in known:
        raise ArgumentError(f"padding is by {', '.join(known)}, found {mode!r}")
    return cast(Mode, mode)


@oc.configurable
def pad(padding: Sequence[int | Sequence[int]], *, mode: str = "zeros", label: str = "pad") -> Layer:
    """Cells around the last batch axes, for each a number or a pair before and after; negative ones cut off:
    batch, height, width | channels -> batch, height', width' | channels.

    They are zeros, or repeat the image as PyTorch's modes do: "reflect" without its border, "replicate" its
    border, "circular" the other end of what is left of it; then sizes have to be known: `ShapeError` where
    they are not.
    """
    if isinstance(padding, str) or not isinstance(padding, Sequence):
        raise ArgumentError(f"padding is a number or a pair for each axis, found {padding!r}")
    amounts = [_pair(each) for each in padding]
    checked = check_mode(mode)
    steps = [_cut(amounts), _added(amounts)] if checked == "circular" else [amounts]

    def block(x: oc.Tensor) -> oc.Tensor:
        for step in steps:
            x = padded(x, step, checked)
        return x.named(label)

    return block


def _cut(amounts: Sequence[Amounts]) -> list[Amounts]:
    return [(min(before, 0), min(after, 0)) for before, after in amounts]


def _added(amounts: Sequence[Amounts]) -> list[Amounts]:
    return [(max(before, 0), max(after, 0)) for before, after in amounts]


def _pair(padding: int | Sequence[int]) -> Amounts:
    pair = list(padding) if isinstance(padding, list | tuple) else [padding] * 2
    if len(pair) != 2:
        raise ArgumentError(f"the padding of an axis is a number or a pair, found {padding!r}")
    before, after = (integer(amount, "padding", None) for amount in pair)
    return before, after


def spatial_sizes(x: oc.Tensor, rank: int) -> list[int | None]:
    """The sizes of the last batch axes, as far as they are known now."""
    last = oc.as_tensor(x).shape.batch[-rank:] if rank else ()
    known = [axis.known if isinstance(axis, oc.Dim) else axis for axis in last]
    sizes = [size if isinstance(size, int) else None for size in known]
    return [None] * (rank - len(sizes)) + sizes


def padded(x: oc.Tensor, amounts: Sequence[Amounts], mode: Mode = "zeros", accum: str = "add") -> oc.Tensor:
    """Cells added to the last batch axes, or cut off. Zeros are negative infinity beside maxima."""
    if not any(map(any, amounts)):
        return x
    if mode != "zeros":
        return _repeated(x, amounts, mode)
    inside = ", ".join(f"n{k}" for k in range(len(amounts)))
    less, more = _around([(-before, -after) for before, after in amounts]), _around(amounts)
    if less != inside:
        x = oc.einsum(f"..., {less} | ... => ..., {inside} | ...", x)
    if more == inside:
        return x
    spec = f"..., {inside} | ... => ..., {more} | ..."
    return oc.einmax(spec, x) if accum == "max" else oc.einsum(spec, x)


def _around(amounts: Sequence[Amounts]) -> str:
    """Axes between so many cells, where these are positive."""
    parts = [
        [*[str(before)] * (before > 0), f"n{k}", *[str(after)] * (after > 0)]
        for k, (before, after) in enumerate(amounts)
    ]
    return ", ".join(map("^".join, parts))


def _repeated(x: oc.Tensor, amounts: Sequence[Amounts], mode: Mode) -> oc.Tensor:
    lengths = spatial_sizes(x, len(amounts))
    source, target = (["...", *(f"n{k}" for k in range(len(amounts)))] for _ in range(2))
    cells, slots, chosen = list[oc.Tensor](), list[str](), list[str]()
    for place, (length, (before, after)) in enumerate(zip(lengths, amounts, strict=True)):
        if not before and not after:
            continue
        if length is None:
            raise oc.ShapeError(here(f"what is repeated around {x} depends on its size, not known yet"))
        if length == 0 < max(before, after):
            raise oc.ShapeError(here("an axis of size 0 has no cells that could be repeated around it"))
        ids = np.pad(np.arange(length), (max(before, 0), max(after, 0)), OF_NUMPY[mode])
        cells.append(oc.data(ids[max(-before, 0) : len(ids) - max(-after, 0)], axes="b", label="cells"))
        slots.append(f"o{place} |")
        chosen.append(f"v{place}")
        source[place + 1], target[place + 1] = f"v{place}", f"o{place}"
    if not cells:
        return x
    operands = "; ".join([f"{', '.join(source)} | ..c..", *slots])
    spec = f"{operands} => {', '.join(target)} | ..c.."
    return oc.gather(spec, x, *cells, at=chosen, out_of_range="drop")
