"""Parts of tensors at positions of their axes, as NumPy's indexing selects them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.shapes.shape import Dim, Row, Shape, closed_row
from ocannl.dialects.texpr import DataOp
from ocannl.dialects.texpr.slices import Ids, Position, Positions, Range, RowPositions, SliceOp
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.arguments.checks import way_to_be_static, whole
from ocannl.program.arguments.errors import ArgumentError, PositionError
from ocannl.program.arguments.static_index import StaticIndex, tagged
from ocannl.program.eager.made_once import made_before, made_once
from ocannl.program.eager.setting import is_eager
from ocannl.program.indexing.ids_together import IdsTogether
from ocannl.program.indexing.indexed_axes import Indexing, checked_ids
from ocannl.program.indexing.moving_positions import moving
from ocannl.program.indexing.new_axes import keep_some_axes, known_rows, with_new_axis
from ocannl.program.memory.added import add_data
from ocannl.program.memory.memory_axes import MEMORY_ORDER, SPEC_ORDER, MemoryAxes, Place
from ocannl.program.types.dtypes import element_of, is_integer
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value, is_memory

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class CheckedIds:
    """The ids of an array as data, which are positions of the axis that they choose from."""

    data: Value


Item: TypeAlias = int | slice | StaticIndex | Value | CheckedIds | Array | EllipsisType | None
IDS = Value, CheckedIds, np.ndarray
ALL = slice(None)


def part_of(value: Value, key: Sequence[object]) -> Value:
    """The part of a value at positions of its axes in the order of memory.

    Raises `ShapeError` where they depend on what is not known yet, `PositionError` for positions that there
    are not, `ArgumentError` for what is not a position.
    """
    items = _with_ids_as_data(value, _items(key, value))
    how = _how(items)
    known = None if how is None else made_before([value, *_ids_among(items)], how)
    if known is not None:
        return known
    sources = _sources(value, items) if value.new_axes or value.guessed_axes else ()
    moved, items = _moved(value, items)
    values, how = [moved, *_ids_among(items)], _how(items)
    part = _part(moved, items) if how is None else made_once(values, how, lambda: _part(moved, items))
    return part if part is value else keep_some_axes(part, value, sources)


def _with_ids_as_data(value: Value, items: list[Item]) -> list[Item]:
    """In eager mode, items with data in place of arrays: so a part at other ids is the same operation."""
    if not is_eager() or not any(isinstance(item, np.ndarray) for item in items):
        return items
    axes = MemoryAxes(value)
    axes.close_rows(MEMORY_ORDER)
    if sum(map(_is_axis, items)) > len(axes.dims):
        return items
    return [
        CheckedIds(_ids(item, axes, axes.place(_axis(items, number))))
        if isinstance(item, np.ndarray)
        else item
        for number, item in enumerate(items)
    ]


def _ids_among(items: Sequence[Item]) -> list[Value]:
    values = [item.data if isinstance(item, CheckedIds) else item for item in items]
    return [value for value in values if isinstance(value, Value)]


def _sources(value: Value, items: Sequence[Item]) -> Sequence[int | None]:
    """The axes of the value that those of the part come from, as `keep_some_axes` takes them. In front of
    several ids, and of those that stand apart from integers, none are told.
    """
    more = len(known_rows(value)) - sum(map(_is_axis, items))
    at = next((number for number, item in enumerate(items) if item is ...), len(items))
    sources: list[int | None] = []
    axis = 0
    is_plain = sum(isinstance(item, IDS) for item in items) == 1 and not _are_apart(items)
    for item in reversed([*items[:at], *[ALL] * more, *items[at + 1 :]]):
        axis -= item is not None
        if isinstance(item, IDS):
            if not is_plain:
                break
            sources += [axis] * _count_of_axes(item)
        elif item is None:
            sources.append(None)
        elif isinstance(item, slice):
            sources.append(axis)
    return sources


def _count_of_axes(ids: Value | CheckedIds | Array) -> int:
    if isinstance(ids, np.ndarray):
        return ids.ndim
    return len(MemoryAxes(ids if isinstance(ids, Value) else ids.data).places)


def _how(items: Sequence[Item]) -> tuple[Hashable, ...] | None:
    """Positions that are part of the program, and where ids stand, as a key; None where there are others."""
    how: list[Hashable] = ["part"]
    for item in items:
        ends: list[Any] = [item.start, item.stop, item.step] if isinstance(item, slice) else [item]
        if isinstance(item, Value | CheckedIds):
            ends = []
        elif not all(end is None or end is ... or type(end) is int for end in ends):
            return None
        how.append(type(item))
        how += ends
    return tuple(how)


def _part(value: Value, items: list[Item]) -> Value:
    apart = _are_apart(items)
    value, items = _sliced(value, items)
    for item in [item for item in items if isinstance(item, StaticIndex)]:
        axes, number = MemoryAxes(value), items.index(item)
        place = axes.place(_axis(items, number))
        value = graph.add(tagged(_slice(value, {place: Linear.var(item.name)}), item))
        del items[number]
    if any(isinstance(item, IDS) for item in items):
        value, items = _taken(value, items, in_front=apart)
    for number in reversed([number for number, item in enumerate(items) if item is None]):
        value = with_new_axis(value, _new_axis(items, number, MemoryAxes(value)))
    return value


def slice_of_batch(value: Value, index: StaticIndex) -> Value:
    """The part at an index of the leftmost batch axis, which the value may get by inference."""
    part = graph.add(tagged(SliceOp.of_batch(value, Linear.var(index.name), graph.fresh_type()), index))
    part.guessed_axes = value.guessed_axes
    return part


def is_written_without_batch(value: Value) -> bool:
    """Whether a value is memory, but no data, that can have no batch axes."""
    batch = graph.known_shape(value).row("batch")
    is_written = is_memory(value) and not isinstance(value.op, DataOp)
    return is_written and batch.var is None and not batch.axes


def _are_apart(items: Sequence[Item]) -> bool:
    """Whether axes of ids go to the front, as in NumPy: another item stands between ids or integers."""
    ids = [isinstance(item, IDS) for item in items]
    chosen = [number for number, item in enumerate(items) if ids[number] or isinstance(item, int)]
    if not any(ids):
        return False
    between = items[chosen[0] : chosen[-1]]
    return any(item is None or item is ... or isinstance(item, slice) for item in between)


def _items(key: Sequence[object], value: Value) -> list[Item]:
    """The items of a key; a mask is the positions where it is true, an array for each of its axes."""
    items: list[Item] = []
    lengths: dict[int, int] = {}
    for given in key:
        mask = _mask(given)
        if mask is None:
            items.append(_item(given, value))
        else:
            lengths.update(enumerate(mask.shape, len(items)))
            items += np.nonzero(mask)
    for number, length in lengths.items():
        axes = MemoryAxes(value)
        size = axes.known_size(axes.place(_axis(items, number)))
        if size != length:
            raise PositionError(f"an axis of `{axes.label}` has {size} positions, found a mask of {length}")
    return items


def _mask(given: object) -> Array | None:
    """An array of truth values; None for anything else."""
    if not isinstance(given, list | tuple | np.ndarray):
        return None
    array: Array = np.asarray(cast("Any", given))
    return array if array.dtype == np.bool_ and array.ndim else None


def _item(given: object, value: Value) -> Item:
    """An item of a key that is not a mask."""
    if given is None or given is ... or isinstance(given, StaticIndex | slice):
        return cast("Item", given)
    if isinstance(given, Value):
        if element_now(given) == BOOL:
            raise ArgumentError(
                f"how many elements of `{tensor_name(value)}` a mask that is a tensor takes is known only "
                "when it runs: choose by oc.where, or by a mask that is a NumPy array"
            )
        return given
    found = type(given).__name__
    if isinstance(given, list | tuple | np.ndarray):
        array: Array = np.asarray(cast("Any", given))
        if is_integer(array.dtype) or not array.size:
            return array.astype(np.int64) if array.ndim else int(array)
        found += f" of {array.dtype}"
    elif (number := whole(given)) is not None:
        return number
    raise ArgumentError(
        f"`{tensor_name(value)}` is indexed by integers, slices, `...`, oc.index, ids and NumPy masks, "
        f"found {found}"
    )


def _is_axis(item: Item) -> bool:
    return item is not None and item is not ...


def _axis(items: Sequence[Item], number: int) -> int:
    """The axis of an item; behind `...` it is counted from the end."""
    if not any(item is ... for item in items[:number]):
        return sum(map(_is_axis, items[:number]))
    return -sum(map(_is_axis, items[number:]))


def _moved(value: Value, items: list[Item]) -> tuple[Value, list[Item]]:
    """The value at those positions that change each time, and the items that are left."""
    positions = moving(value, items, _known_sizes(value, items)) if is_eager() else {}
    for number, ids in sorted(positions.items(), reverse=True):
        alone: list[Item] = [ALL if _is_axis(item) else item for item in items]
        alone[number] = ids
        value, _ = _taken(value, alone, in_front=False)
        items = [*items[:number], *([ALL] * ids.ndim), *items[number + 1 :]]
    return value, items


def _known_sizes(value: Value, items: Sequence[Item]) -> list[int | None]:
    """The sizes of the axes of items; None for what has no axis, and where there is none of a known size."""
    axes = MemoryAxes(value)
    sizes: list[int | None] = []
    for number, item in enumerate(items):
        size = None
        if isinstance(item, int | slice):
            with suppress(OcannlError):
                size = axes.size(axes.place(_axis(items, number)))
        sizes.append(size)
    return sizes


def _sliced(value: Value, items: list[Item]) -> tuple[Value, list[Item]]:
    """The value at integers and slices, and the items that are left, with all positions for slices."""
    positions = _positions(MemoryAxes(value), items)
    if any(position is not None for position in positions.values()):
        value = graph.add(_slice(value, positions))
    left: list[Item] = []
    for item in items:
        if not isinstance(item, int):
            left.append(ALL if isinstance(item, slice) else item)
    return value, left


def _positions(axes: MemoryAxes, items: Sequence[Item]) -> dict[Place, Position]:
    """The positions that integers and slices say."""
    if sum(item is ... for item in items) > 1:
        raise ArgumentError("`...` stands for all further axes, so it is written once")
    given = sum(map(_is_axis, items))
    if given > len(axes.dims) and all(row.is_closed for row in axes.shape):
        count = "1 axis" if len(axes.dims) == 1 else f"{len(axes.dims) or 'no'} axes"
        raise PositionError(f"`{axes.label}` ({axes.shape}) has {count}, but {given} positions are given")
    found: dict[Place, Position] = {}
    for number, item in enumerate(items):
        if _is_axis(item):
            place = axes.place(_axis(items, number))
            found[place] = _position(item, axes, place)
    return found


def _position(item: Item, axes: MemoryAxes, place: Place) -> Position:
    """The position of one axis. Those that are no integer and no slice come later."""
    if isinstance(item, int):
        size = axes.size(place) if item >= 0 else axes.known_size(place)
        if size is not None and not -size <= item < size:
            where = f"axis {axes.known_number(place)} of `{axes.label}` ({axes.shape})"
            raise PositionError(f"position {item} is outside of {where}, of size {size}")
        return Linear((), item if item >= 0 else item + (size or 0))
    if not isinstance(item, slice) or item == ALL:
        return None
    try:
        size = axes.known_size(place)
        span = range(*item.indices(size))
    except (TypeError, ValueError):
        ends: list[object] = [item.start, item.stop, item.step]
        way = "".join(dict.fromkeys(map(way_to_be_static, ends)))
        raise ArgumentError(f"the ends of a slice are integers, and its step is not 0: {item}{way}") from None
    return None if span == range(size) else Range(span.start, len(span), span.step)


@dataclass(frozen=True)
class WrittenPart:
    """The positions of a part that code writes, the ids and the static indices among them."""

    positions: Positions
    ids: Sequence[Value]
    indices: Sequence[StaticIndex]


def written_part(value: Value, key: Sequence[object]) -> WrittenPart:
    """The part of memory at positions that code writes. Raises as `part_of`."""
    items = _items(key, value)
    if any(item is None for item in items):
        raise ArgumentError(f"the part of `{tensor_name(value)}` that code writes has no new axes")
    axes = MemoryAxes(value)
    positions = _positions(axes, items)
    items = _with_moving_ids(value, items)
    numbers = [number for number, item in enumerate(items) if isinstance(item, IDS)]
    places = [axes.place(_axis(items, number)) for number in numbers]
    ids = [_checked(items[n], axes, place) for n, place in zip(numbers, places, strict=True)]
    together = IdsTogether(ids)
    ranks = _axes_of_ids(together)
    if any(ranks) and _are_apart(items):
        raise ArgumentError(
            "ids, and integers beside them, stand side by side in a part that code writes; "
            "an integer elsewhere can be a slice of one position, as in m[0:1, :, ids]"
        )
    positions |= {place: Ids(operand, ranks[operand]) for operand, place in enumerate(places)}
    indices = [item for item in items if isinstance(item, StaticIndex)]
    for number, item in enumerate(items):
        if isinstance(item, StaticIndex):
            positions[axes.place(_axis(items, number))] = Linear.var(item.name)
    return WrittenPart(_by_row(positions), together.broadcast(), indices)


def _with_moving_ids(value: Value, items: list[Item]) -> list[Item]:
    """Items of a part that code writes, with ids in place of positions that change each time: integers,
    and a slice that stands alone. Axes of ids beside it would be one with its own.
    """
    found = moving(value, items, _known_sizes(value, items)) if is_eager() else {}
    alone = sum(map(_is_axis, items)) == 1
    return [
        found[number] if number in found and (alone or isinstance(item, int)) else item
        for number, item in enumerate(items)
    ]


def _axes_of_ids(ids: IdsTogether) -> list[int]:
    """The number of axes that take the place of each indexed axis. Ids are broadcast to one shape, whose
    axes take the place of the first indexed axis; the other indexed axes vanish.
    """
    several = [number for number, slot in enumerate(ids.slots) if slot.axes]
    return [len(ids.names) if [number] == several[:1] else 0 for number in range(len(ids.slots))]


def _slice(value: Value, positions: Mapping[Place, Position]) -> SliceOp:
    return SliceOp(value, _by_row(positions), graph.fresh_type())


def _by_row(positions: Mapping[Place, Position]) -> Positions:
    rows: list[RowPositions] = []
    for kind in SPEC_ORDER:
        own = {place.number: position for place, position in positions.items() if place.row == kind}
        ahead, behind = max(own, default=-1) + 1, -min(own, default=0)
        leading = tuple([own.get(number) for number in range(ahead)])
        trailing = tuple([own.get(number) for number in range(-max(behind, 0), 0)])
        rows.append(RowPositions(leading, trailing))
    batch, input, output = rows
    return batch, input, output


def _taken(value: Value, items: list[Item], *, in_front: bool) -> tuple[Value, list[Item]]:
    """The value at ids, whose axes stand in front, or in place of the first axis that they choose. Where they
    choose in several rows, theirs is guessed.
    """
    axes = MemoryAxes(value)
    numbers = [number for number, item in enumerate(items) if isinstance(item, IDS)]
    places = [axes.place(_axis(items, number)) for number in numbers]
    if in_front:
        axes.close_rows(MEMORY_ORDER)
    ids = IdsTogether([_ids(items[n], axes, place) for n, place in zip(numbers, places, strict=True)])
    source = axes.slot("x")
    at = [source.at(place) for place in places]
    first = source.axes[0] if in_front else at[0]
    kept = () if first in at else (first,)
    result = source.with_axes(dict.fromkeys(at, ()) | {first: (*ids.names, *kept)})
    spec = f"{'; '.join(map(str, (source, *ids.slots)))} => {result}"
    constant = not any(isinstance(items[number], Value) for number in numbers)
    gathered = Indexing(spec, ids.ids, at, "drop" if constant else "error", {}, scatters=False)
    left = [item for number, item in enumerate(items) if number not in numbers]
    start = 0 if in_front else numbers[0]
    left[start:start] = [ALL] * len(ids.names)
    part = gathered.apply(value, "add", "gather")
    if len({place.row for place in places}) > 1 and all(row.is_closed for row in axes.shape):
        behind = result.axes[::-1]
        part.guessed_axes = frozenset({-1 - behind.index(name) for name in ids.names})
    return part, left


def _ids(item: Item, axes: MemoryAxes, place: Place) -> Value:
    """Ids as a tensor. Those of an array are checked here, and may count from the end."""
    if isinstance(item, Value):
        return item
    if isinstance(item, CheckedIds):
        return item.data
    assert isinstance(item, np.ndarray)
    return add_data(_counted_from_front(item, axes, axes.known_size(place)), _type_of_ids(item.shape), "ids")


def _counted_from_front(ids: Array, axes: MemoryAxes, size: int) -> Array:
    """Ids of an axis, negative ones as those that they mean. Raises `PositionError` for others."""
    # Most often all are positions, which one comparison tells: as unsigned, negative ones are too large.
    if (ids.view(np.uint64) < size).all():
        return ids
    outside = ids[(ids < -size) | (ids >= size)]
    if outside.size:
        raise PositionError(f"an axis of `{axes.label}` has {size} positions, found id {outside.flat[0]}")
    return np.where(ids < 0, ids + size, ids)


@lru_cache(maxsize=2**10)
def _type_of_ids(shape: tuple[int, ...]) -> TensorType:
    return TensorType.of(Shape(Row(), Row(), closed_row(*map(Dim, shape))), element_of(np.int64))


def _checked(item: Item, axes: MemoryAxes, place: Place) -> Value:
    """Ids as a tensor; one's own values are checked when it is used."""
    ids = _ids(item, axes, place)
    if not isinstance(item, Value):
        return ids
    return checked_ids(ids, axes.label, axes.dim(place))


def _new_axis(items: Sequence[Item], number: int, axes: MemoryAxes) -> int:
    """The number of the axis before which a new one stands."""
    at = _axis(items, number)
    return at + len(axes.places) if any(item is ... for item in items[:number]) else at
