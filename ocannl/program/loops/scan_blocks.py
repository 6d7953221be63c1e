"""Axes of positions in blocks: cut, split, merged and joined, as scans do."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.shapes.shape import Dim
from ocannl.dialects.texpr.axes import Axis
from ocannl.program import expressions
from ocannl.program.memory.memory_axes import MemoryAxes, Place, Slot
from ocannl.program.values import Value


def ahead(axis: Axis) -> Axis:
    """The axis of blocks, before that of the positions in them."""
    return axis if axis.number >= 0 else Axis(axis.row, axis.number - 1)


def _slot(value: Value, axis: Axis) -> tuple[Slot, str]:
    """The axes of a value in a spec, and the name of one."""
    slot = MemoryAxes(value).slot("x")
    return slot, slot.at(Place(axis.row, axis.number))


def cut(value: Value, axis: Axis, at: int, *, first: bool) -> Value:
    """The positions before one, or those from it on."""
    slot, name = _slot(value, axis)
    kept = "head" if first else "tail"
    spec = f"{slot.with_axes({name: ('head^tail',)})} => {slot.with_axes({name: (kept,)})}"
    return expressions.spec_apply(spec, "add", "mul", [value], [("head", Dim(at))])


def split(value: Value, axis: Axis, size: int) -> Value:
    """With an axis of blocks of so many positions before that of positions in them."""
    slot, name = _slot(value, axis)
    spec = f"{slot.with_axes({name: ('block&place',)})} => {slot.with_axes({name: ('block', 'place')})}"
    return expressions.spec_apply(spec, "add", "mul", [value], [("place", Dim(size))])


def merged(value: Value, axis: Axis) -> Value:
    """With one axis for that of blocks and that of the positions in them."""
    slot, _ = _slot(value, axis)
    names = slot.rows[axis.row]
    at = names.index(slot.at(Place(axis.row, axis.number))) - (axis.number < 0)
    left, right = names[at : at + 2]
    merged = slot.with_axes({left: (f"{left}&{right}",), right: ()})
    return expressions.spec_apply(f"{slot} => {merged}", "add", "mul", [value], [])


def joined(one: Value, other: Value, axis: Axis, size: int, left: int) -> Value:
    """Two values one after the other along an axis."""
    slot, name = _slot(one, axis)
    return joined_in(slot, name, [one, other], [size, left])


def joined_in(slot: Slot, name: str, values: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Two values of a slot one after the other along an axis, of which they have so many positions."""
    own, rest = (slot.with_axes({name: (end,)}) for end in ("head", "tail"))
    spec = f"{own}; {rest} => {slot.with_axes({name: ('head^tail',)})}"
    dims = [(end, Dim(size)) for end, size in zip(("head", "tail"), sizes, strict=True)]
    return expressions.spec_apply(spec, "add", "add", values, dims)
