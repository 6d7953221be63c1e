"""Scans of associative functions, which run in parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import built, form_of, leaves_of
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.indexing.tensor_parts import ALL, part_of
from ocannl.program.loops.scan_blocks import joined_in
from ocannl.program.memory.memory_axes import MemoryAxes
from ocannl.program.tensor import Tensor, as_tensor
from ocannl.program.tensor_functions.along_axis import Along

TreeT = TypeVar("TreeT")


def associative_scan(
    combine: Callable[[Any, Any], Any], xs: TreeT, axis: int | None = None, *, reverse: bool = False
) -> TreeT:
    """All elements up to each one along an axis, combined: `x[0]`, `combine(x[0], x[1])`,
    `combine(combine(x[0], x[1]), x[2])`, ...; with `reverse`, from the last one on. The axis is the last one
    of the batch row, without any the last one, or that of a number in the order of memory.

    `combine` is associative, works on many positions at once, and returns tensors of the same shapes. `xs` is
    a tensor or a tree of them, of one known number n of positions. The function is applied log2(n) times, to
    whole tensors (Hillis and Steele, "Data parallel algorithms", 1986). Raises `ArgumentError` for another
    form, `ShapeError` where the axis is not known.
    """
    form = form_of(xs)
    leaves = [as_tensor(leaf) for leaf in leaves_of(xs)]
    if axis is None:
        batch = [place for place in MemoryAxes(leaves[0].ir_value).places if place.row == "batch"]
        axis = len(batch) - 1
    sizes = {Along.of(leaf, axis).size for leaf in leaves}
    if len(sizes) != 1:
        raise ArgumentError(f"an associative scan is of tensors with one number of positions, found {sizes}")
    (size,) = sizes
    apart = 1
    while apart < size:
        ahead = [_cut(leaf, axis, slice(0, size - apart)) for leaf in leaves]
        behind = [_cut(leaf, axis, slice(apart, size)) for leaf in leaves]
        first, second = (built(form, iter(part)) for part in (ahead, behind))
        found = combine(second, first) if reverse else combine(first, second)
        if form_of(found) != form:
            raise ArgumentError("what an associative scan combines has the form of its elements")
        combined = [as_tensor(leaf) for leaf in leaves_of(found)]
        for one, given in zip(combined, ahead, strict=True):
            _check_shape(one, given)
        kept = slice(size - apart, size) if reverse else slice(0, apart)
        ends = [_cut(leaf, axis, kept) for leaf in leaves]
        pairs = zip(combined, ends, strict=True) if reverse else zip(ends, combined, strict=True)
        leaves = [_joined(one, other, axis) for one, other in pairs]
        apart *= 2
    given = [as_tensor(leaf).ir_value for leaf in leaves_of(xs)]
    kept = [keep_all_axes(leaf.ir_value, value) for leaf, value in zip(leaves, given, strict=True)]
    return built(form, map(Tensor, kept))


def _check_shape(combined: Tensor, given: Tensor) -> None:
    """Raises `ArgumentError` where what was combined lacks positions, or has others."""
    found, wanted = graph.known_shape(combined.ir_value), graph.known_shape(given.ir_value)
    if found.is_final and wanted.is_final and found.memory_sizes != wanted.memory_sizes:
        raise ArgumentError(
            "an associative scan combines many positions at once, each with its own: of tensors of the "
            f"shape {wanted} it got `{combined.label}` of the shape {found}; a reduction is no such function"
        )


def _cut(tensor: Tensor, axis: int, positions: slice) -> Tensor:
    """The tensor at some positions of an axis."""
    key = [*[ALL] * axis, positions] if axis >= 0 else [..., positions, *[ALL] * (-axis - 1)]
    return Tensor(part_of(tensor.ir_value, key))


def _joined(one: Tensor, other: Tensor, axis: int) -> Tensor:
    """Two tensors one after the other along an axis."""
    first, second = Along.of(one, axis), Along.of(other, axis)
    values, sizes = [first.value, second.value], [first.size, second.size]
    return Tensor(joined_in(first.slot, first.name, values, sizes))
