"""Products of quantized weights with one row of activations, which are as they are or in integers of 8 bits.

Of what has a scale, some neighbours are summed before they are multiplied with it. In integers, these are
four at a time, whose products are exact, as in llama.cpp (`ggml_vec_dot_q8_0_q8_0`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

import ocannl as oc

WORD, LANES = 4, 16
"""The neighbours that are summed first in integers, and the distance of those that are in floats."""
LEVELS = 127
TINY = 2.0**-126
"""The least normal number of f32, in place of a scale of 0."""


@dataclass(frozen=True)
class Split:
    """How an axis of a block is split in two: `joined` in a spec, `axes` apart, of which one has a size."""

    joined: str
    axes: tuple[str, str]
    sizes: Mapping[str, int]
    dtype: type[np.generic]


WORDS = Split("l&i", ("l", "i"), {"i": WORD}, np.int32)
FLOATS = Split("c&l", ("c", "l"), {"l": LANES}, np.float32)


@dataclass(frozen=True)
class Activations:
    """Activations, batch | lead, axes, as they are or in integers.

    Attributes:
        numbers: they themselves, or the integers.
        scales: the sizes of the steps of integers, with axes of size 1 inside of blocks.
        lead: names of the further input axes.
    """

    numbers: oc.Tensor
    lead: tuple[str, ...]
    scales: oc.Tensor | None = None

    def value(self) -> oc.Tensor:
        """The numbers that they stand for, in f32."""
        floats = oc.cast(self.numbers, np.float32)
        return floats if self.scales is None else floats * self.scales

    def row(self, *axes: str) -> str:
        return ", ".join([*self.lead, *axes])

    @property
    def split(self) -> Split:
        return FLOATS if self.scales is None else WORDS

    def rounded(self, axes: Sequence[str], blocks: Sequence[str]) -> Activations:
        """To the nearest of 127 steps to the greatest of each block, whose positions are along the axes
        `blocks`, and the further input axes.
        """
        places = self.row(*(axis if axis in blocks else "0" for axis in axes))
        greatest = oc.einmax(f"... | {self.row(*axes)} => ... | {places}", abs(self.value()))
        scales = greatest / LEVELS
        steps = self.value() * oc.where(scales > 0, 1 / oc.maximum(scales, TINY), 0.0)
        return replace(self, numbers=oc.materialize(oc.cast(oc.round(steps), np.int8)), scales=scales)

    def steps(self, places: str, outputs: str, *kept: tuple[str, oc.Tensor]) -> oc.Tensor:
        """The scales of weights, by their input axes, times those of integers at `places`."""
        factors = [(f"{row} -> ..o..", tensor) for row, tensor in kept]
        factors += [] if self.scales is None else [(f"... | {places}", self.scales)]
        spec = "; ".join([row for row, _ in factors])
        return oc.einsum(f"{spec} => {self.batch}{outputs}", *(tensor for _, tensor in factors))

    @property
    def batch(self) -> str:
        """The batch row of steps in a spec."""
        return "" if self.scales is None else "... | "


Kept: TypeAlias = Mapping[str, oc.Tensor]
RowProduct: TypeAlias = Callable[[Kept, Activations], oc.Tensor]


def product_q8_0(kept: Kept, x: Activations) -> oc.Tensor:
    row, split = x.row, x.split
    weights = _apart(kept["codes"], "{} -> ..o..", row("k"), split)
    sums = _sums(weights, _opposed(_apart(x.numbers, "... | {}", row("k"), split), split), row("k"), split)
    steps = oc.virtual(x.steps(row("k", "0"), f"..o.., {row('k')}", (row("k"), kept["scales"])))
    return _scaled(sums, row("k"), steps, x.batch + f"..o.., {row('k')}", "..o..")


def product_q4_k(kept: Kept, x: Activations) -> oc.Tensor:
    """The halves of a byte have scales of their own. Minima are multiplied with sums of blocks."""
    own = x.row("k", "p", "n")
    totals = oc.einsum(f"... | {x.row('k', 'p', 'n', 'j')} => ... | {own}", x.value())
    least = oc.einsum(
        f"{x.row('k')} -> ..o..; {own} -> ..o..; ... | {own} => ... | ..o..",
        kept["min_scale"],
        oc.cast(kept["mins"], np.float32),
        totals,
    )
    product = _q4_k_of_floats(kept, x) if x.scales is None else _q4_k_of_integers(kept, x)
    return product - oc.virtual(least)


def _q4_k_of_floats(kept: Kept, x: Activations) -> oc.Tensor:
    """Each half times the sizes of its steps."""
    outer, own = x.row("k", "p"), x.row("k", "p", "n")
    scales = (x.row("k"), kept["scale"]), (own, oc.cast(kept["scales"], np.float32))
    steps = x.steps("", f"..o.., {own}", *scales)
    halves: list[oc.Tensor] = []
    for half, sums in enumerate(_sums_of_halves(kept, x)):
        place = f"..o.., {x.row('k', 'p', str(half))}"
        halves.append(oc.virtual(_scaled(sums, outer, steps, place, f"..o.., {outer}, l")))
    both = oc.virtual(halves[0] + halves[1])
    return oc.einsum(f"... | ..o.., {outer}, l => ... | ..o..", both)


def _q4_k_of_integers(kept: Kept, x: Activations) -> oc.Tensor:
    """Each half times its scale, an integer too; the size of a step multiplies their sum over a block."""
    row, outer = x.row, x.row("k", "p")
    scales = oc.cast(kept["scales"], np.int32)
    halves: list[oc.Tensor] = []
    for half, sums in enumerate(_sums_of_halves(kept, x)):
        spec = f"... | ..o.., {outer}, l; {row('k', 'p', str(half))} -> ..o.. => ... | ..o.., {outer}, l"
        halves.append(oc.virtual(oc.einsum(spec, sums, scales)))
    both = oc.virtual(halves[0] + halves[1])
    blocks = oc.virtual(oc.einsum(f"... | ..o.., {outer}, l => ... | ..o.., {row('k')}, l", both))
    steps = x.steps(row("k", "0", "0", "0"), f"..o.., {row('k')}", (row("k"), kept["scale"]))
    return _scaled(blocks, row("k"), oc.virtual(steps), f"... | ..o.., {row('k')}", "..o..")


def _sums_of_halves(kept: Kept, x: Activations) -> list[oc.Tensor]:
    """The sums that are summed first, of the lower and of the upper halves of bytes."""
    outer, split = x.row("k", "p"), x.split
    codes = oc.cast(_apart(kept["codes"], "{} -> ..o..", outer, split), np.int32)
    found: list[oc.Tensor] = []
    for half, bits in enumerate((codes & 15, codes >> 4)):
        place = x.row("k", "p", str(half))
        found.append(_sums(bits, _apart(x.numbers, "... | {}", outer, split, place), outer, split))
    return found


def product_int8(kept: Kept, x: Activations) -> oc.Tensor:
    """A sum of integers for each output, and for each of the further input axes."""
    row, lead = x.row, x.row()
    outputs = f"..o.., {lead}" if lead else "..o.."
    factors = (oc.cast(each, np.int32) for each in (kept["codes"], x.numbers))
    sums = oc.einsum(f"{row('j')} -> ..o..; ... | {row('j')} => ... | {outputs}", *factors)
    return _by_outputs(sums, kept, x)


def row_product_int8(kept: Kept, x: Activations) -> oc.Tensor:
    """The same, in words."""
    row, lead, split = x.row, x.row(), x.split
    outputs = f"..o.., {lead}" if lead else "..o.."
    weights = _apart(kept["codes"], "{} -> ..o..", lead, split)
    sums = _sums(weights, _opposed(_apart(x.numbers, "... | {}", lead, split), split), lead, split)
    return _by_outputs(oc.einsum(f"... | ..o.., {row('l')} => ... | {outputs}", sums), kept, x)


def _by_outputs(sums: oc.Tensor, kept: Kept, x: Activations) -> oc.Tensor:
    lead = x.row()
    outputs = f"..o.., {lead}" if lead else "..o.."
    spec = f"... | {outputs}; {lead} -> ..o..; ... | {x.row('0')} => ... | ..o.."
    assert x.scales is not None
    return oc.einsum(spec, oc.cast(sums, np.float32), kept["scales"], x.scales)


def _joined(*parts: str) -> str:
    return ", ".join([part for part in parts if part])


def _apart(numbers: oc.Tensor, rows: str, outer: str, split: Split, place: str | None = None) -> oc.Tensor:
    """Numbers whose last axis is split; of those at a place of an outer axis, if that is given."""
    sizes: dict[str, Any] = dict(split.sizes)
    source = rows.format(_joined(outer if place is None else place, split.joined))
    return oc.einsum(f"{source} => {rows.format(_joined(outer, *split.axes))}", numbers, **sizes)


def _opposed(numbers: oc.Tensor, split: Split) -> oc.Tensor:
    """Numbers as they are, said to have opposites if they are integers: AVX2 moves signs to them."""
    return oc.maximum(oc.cast(numbers, split.dtype), -LEVELS) if split is WORDS else numbers


def _sums(weights: oc.Tensor, numbers: oc.Tensor, outer: str, split: Split) -> oc.Tensor:
    """The sums of products that are summed first, where they are read."""
    row = _joined(outer, *split.axes)
    factors = (oc.virtual(oc.cast(each, split.dtype)) for each in (weights, numbers))
    spec = f"{row} -> ..o..; ... | {row} => ... | ..o.., {_joined(outer, 'l')}"
    return oc.virtual(oc.einsum(spec, *factors))


def _scaled(sums: oc.Tensor, outer: str, steps: oc.Tensor, places: str, result: str) -> oc.Tensor:
    """Sums times the sizes of steps at their places."""
    floats = oc.virtual(oc.cast(sums, np.float32))
    return oc.einsum(f"... | ..o.., {outer}, l; {places} => ... | {result}", floats, steps)
