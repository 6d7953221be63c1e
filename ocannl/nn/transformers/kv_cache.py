"""Keys and values of attention, kept for the positions that follow (a cache of keys and values)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

import ocannl as oc
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import integer
from ocannl.program.code import computing
from ocannl.program.indexing.indexed_axes import checked_ids
from ocannl.program.types.dtypes import float_element


class Attended(NamedTuple):
    """Keys and values, batch, t | heads, features, that queries attend to, and a mask batch, s | t -> ."""

    keys: oc.Tensor
    values: oc.Tensor
    mask: oc.Tensor


class Kept(NamedTuple):
    """The memory of one attention block."""

    keys: oc.Tensor
    values: oc.Tensor


class _Count(NamedTuple):
    """The number of positions that a block was given, and the first of those that it has now."""

    filled: oc.Tensor
    first: oc.Tensor


@dataclass(frozen=True, eq=False)
class KVCache:
    """Memory for keys and values; `nn.kv_cache` makes one. Attention blocks that share it have memory of
    their own in it, one for each size of batch.

    Attributes:
        length: the number of positions that it has room for.
        dtype: that in which keys and values are kept; by default f32 or f64 as theirs.
        label: the scope of its memory.
        start: the first of the positions that are given next: an integer, or a tensor of integers of shape
            () or with one for each sequence; None where blocks count them.
        seen: how many positions, from the first on, attention looks at; by default all.
        last: of each sequence the last of the first positions, batch | , after which there is padding; None
            where there is none.
        at_once: the most positions that are given at once after the first ones; then blocks with a window
            have room for these and the window only, in turn (a ring buffer). None for room for all.
    """

    length: int
    dtype: DTypeLike | None = None
    label: str = "cache"
    start: oc.TensorLike | None = None
    seen: int | None = None
    last: oc.Tensor | None = None
    at_once: int | None = None
    kept: dict[tuple[Hashable, tuple[int, ...]], Kept] = field(
        default_factory=dict[tuple[Hashable, tuple[int, ...]], Kept], repr=False
    )
    counts: dict[Hashable, _Count] = field(default_factory=dict[Hashable, _Count], repr=False)
    next_positions: dict[int, oc.Tensor] = field(default_factory=dict[int, oc.Tensor], init=False, repr=False)
    """The next so many positions, once for all layers."""
    parts: dict[Hashable, tuple[object, ...]] = field(
        default_factory=dict[Hashable, "tuple[object, ...]"], init=False, repr=False
    )
    """The parts of memory that are at them."""
    masks: dict[Hashable, oc.Tensor] = field(
        default_factory=dict[Hashable, oc.Tensor], init=False, repr=False
    )
    """Which other positions these see."""

    def at(self, start: oc.TensorLike, seen: int | None = None, last: oc.Tensor | None = None) -> KVCache:
        """The same memory where the next position is `start`, of which attention looks at the first `seen`
        positions: fewer take less time. Where the first ones are padded, `last` is where each sequence ends.
        """
        if seen is not None and not 0 < seen <= self.length:
            raise oc.ArgumentError(f"a cache of {self.length} positions has no {seen} to look at")
        return replace(self, start=start, seen=seen, last=last)

    def next(self, owner: Hashable, count: int) -> KVCache:
        """The same memory at the next `count` positions of a block, which it counts; itself where the start
        is given.
        """
        if self.start is not None:
            return self
        if owner not in self.counts:
            with oc.scope(self.label):
                self.counts[owner] = _Count(*(_counter(label) for label in _Count._fields))
        filled, first = self.counts[owner]
        first[...] = filled
        filled[...] = filled + count
        return self.at(first, self.seen)

    def reset(self) -> oc.Code:
        """Code after which blocks that count positions begin at the first again."""
        with oc.code(f"reset {self.label}") as code:
            for count in self.counts.values():
                count.filled[...] = 0
        return code

    def positions(self, count: int) -> oc.Tensor:
        """The next `count` positions of each sequence: batch, count | ."""
        assert self.start is not None, "a block that counts asks for its next positions first"
        if count not in self.next_positions:
            self.next_positions[count] = places(self.start, count)
        return self.next_positions[count]

    def extended(
        self, owner: Hashable, keys: oc.Tensor, values: oc.Tensor, window: int | None = None
    ) -> Attended:
        """Keeps the keys and values (batch, s | heads, features) of the next positions for a block, and gives
        those of all positions so far. With `window`, a position sees that many, itself the last one.
        """
        # The cache has a size of its own: what is open in these is decided here, as by compiling them.
        oc.infer(computing(keys.ir_value) + computing(values.ir_value))
        *batch, count = keys.shape.array[:-2]
        if count > self.length:
            raise oc.ArgumentError(f"{count} positions do not fit into a cache of {self.length}")
        room = self._room(window)
        kept, positions = self.memory_of(owner, [*batch, room], keys, values), self.positions(count)
        if isinstance(self.start, int) and self.start == 0:
            if self.last is not None and count > room:
                ends = _ends(batch, self.last, room)
                write(kept, _along(slice(0, room)), keys[ends], values[ends])
            else:
                for places, part in _turns(count, room):
                    write(kept, _along(places), keys[_along(part)], values[_along(part)])
            return Attended(keys, values, seen_mask(positions, count, window))
        if self.at_once is not None and count > self.at_once:
            raise oc.ArgumentError(f"{count} positions at once, of which a cache was made for {self.at_once}")
        write(kept, self._part(batch, count, room), keys, values)
        seen = self.length if self.seen is None else self.seen
        part = _along(slice(0, min(seen, room)))
        return Attended(kept.keys[part], kept.values[part], self._mask(count, seen, room, window))

    def _part(self, batch: list[int], count: int, room: int) -> tuple[object, ...]:
        """The part of memory at the next `count` positions, which are checked once for all layers."""
        key = (*batch, count, room)
        if key not in self.parts:
            positions = self.positions(count)
            place = positions % room if room < self.length else positions
            checked = oc.Tensor(checked_ids(place.ir_value, self.label, Dim(room)))
            self.parts[key] = _place(batch, checked)
        return self.parts[key]

    def _mask(self, count: int, seen: int, room: int, window: int | None) -> oc.Tensor:
        """Which positions the next `count` see, once for all layers."""
        key = count, seen, room, window
        if key not in self.masks:
            positions = self.positions(count)
            is_ring = seen > room
            self.masks[key] = (ring_mask if is_ring else seen_mask)(positions, min(seen, room), window)
        return self.masks[key]

    def _room(self, window: int | None) -> int:
        """How many positions a block has memory for."""
        if window is None or self.at_once is None:
            return self.length
        return min(self.length, window + self.at_once)

    def memory_of(self, owner: Hashable, batch: list[int], keys: oc.Tensor, values: oc.Tensor) -> Kept:
        """The memory of a block with these batch axes, made when first needed."""
        at = owner, tuple(batch)
        if at not in self.kept:
            with oc.scope(self.label):
                made = [self._node(*each, batch) for each in (("keys", keys), ("values", values))]
                self.kept[at] = Kept(*made)
        return self.kept[at]

    def _node(self, label: str, like: oc.Tensor, batch: list[int]) -> oc.Tensor:
        dtype = like.dtype if self.dtype is None else self.dtype
        return oc.node(label, batch=batch, output=like.shape.array[-2:], init=0.0, dtype=dtype)


def _counter(label: str) -> oc.Tensor:
    return oc.node(label, output=[], init=0.0, dtype=np.int32)


def kv_cache(
    *, length: int, dtype: DTypeLike | None = None, at_once: int | None = None, label: str = "cache"
) -> KVCache:
    """A cache of the keys and values of up to `length` positions of each sequence, for
    `nn.multi_head_attention(..., cache=cache)`: the block then takes the positions of sequences in turn, any
    number at once, and attends to all that it was given.

    `cache.reset()` is code that begins again. Keys and values are kept in `dtype`, by default in their own.
    With `at_once`, blocks with a sliding window keep only that and so many positions more; no more are then
    given at once, except as the first ones with `cache.at(0)`; if these are padded, `last=` of `cache.at`
    says where each sequence ends.
    """
    if at_once is not None:
        at_once = integer(at_once, "the positions at once", least=1)
    if dtype is not None:
        float_element(dtype, "keys and values are")
    return KVCache(integer(length, "the length of a cache", least=1), dtype, label, at_once=at_once)


def places(start: oc.TensorLike, count: int) -> oc.Tensor:
    """The positions `start`, `start + 1`, ... of each sequence: batch, count | ."""
    first = oc.as_tensor(start)
    steps = oc.einsum("s => s |", oc.range(count))
    if not first.ndim:
        return first + steps
    return oc.einsum("... | => ..., 0 |", first) + steps


def _place(batch: list[int], positions: oc.Tensor) -> tuple[object, ...]:
    """The part of memory at positions that may be others in each sequence."""
    if positions.ndim == 1:
        return (*[slice(None)] * len(batch), positions)
    shape = (*batch, positions.shape.array[-1])
    return (*np.indices(shape, np.int32)[:-1], positions)


def _along(positions: slice) -> tuple[object, ...]:
    """The part of keys or values at positions."""
    return (..., positions, slice(None), slice(None))


def _turns(count: int, room: int) -> Iterator[tuple[slice, slice]]:
    """The last of the first `count` positions for which there is room: places and positions of stretches."""
    at = max(0, count - room)
    while at < count:
        stop = min(count, (at // room + 1) * room)
        yield slice(at % room, at % room + stop - at), slice(at, stop)
        at = stop


def _ends(batch: list[int], last: oc.Tensor, room: int) -> tuple[object, ...]:
    """The part of sequences that ends at `last`: for each place of so many the position that is kept there.
    Where there is none yet, it is the first one, which no position takes for it.
    """
    return _place(batch, oc.maximum(_latest(oc.einsum("... | => ..., 0 |", last), room), 0))


def _latest(last: oc.Tensor, room: int) -> oc.Tensor:
    """The positions at so many places, position p at p modulo their number, where `last` is the latest."""
    return last - (last - oc.einsum("t => t |", oc.range(room))) % room


def write(kept: Kept, part: tuple[object, ...], keys: oc.Tensor, values: oc.Tensor) -> None:
    """Keeps keys and values in a part of memory."""
    kept.keys[part] = keys
    kept.values[part] = values


def seen_mask(positions: oc.Tensor, seen: int, window: int | None) -> oc.Tensor:
    """1 where a position sees another of the first `seen`: batch, s | t -> ."""
    return _mask(positions, _others(seen), window)


def ring_mask(positions: oc.Tensor, room: int, window: int | None) -> oc.Tensor:
    """The same for memory in which position p is at place p modulo `room`, the last ones of `positions` the
    latest.
    """
    last, place = positions[..., -1:], _others(room)
    other = last - (last - place) % room
    return oc.logical_and(_mask(positions, other, window), other >= 0)


def _others(count: int) -> oc.Tensor:
    return oc.einsum("t => t -> ", oc.range(count))


def _mask(positions: oc.Tensor, other: oc.Tensor, window: int | None) -> oc.Tensor:
    mask = other <= positions
    return mask if window is None else oc.logical_and(mask, other > positions - window)
