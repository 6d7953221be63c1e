"""Padded axes of arguments: `*` in their letters, and the sizes up to which they are padded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.functions.arguments import ArrayType
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.tensor import Index
from ocannl.program.tracing.padded_axes import PaddedAxes

Array = NDArray[Any]
LEAST = 8
"""The least size of a padded axis; the others are its multiples by powers of two."""


def without_marks(letters: str) -> str:
    """The letters of axes as `oc.data` takes them."""
    return letters.replace("*", "")


def marked_axes(letters: str) -> list[int]:
    """The axes with a `*` before their letter, by their numbers in the array, whose order is that of memory.

    Raises `ArgumentError` for a `*` that no letter follows.
    """
    axes: list[tuple[str, bool]] = []
    marked = False
    for letter in letters:
        if letter == "*" and not marked:
            marked = True
        elif letter in "bio":
            axes.append((letter, marked))
            marked = False
        elif marked:
            break
    if marked:
        raise ArgumentError(f'`*` stands before the letter of an axis, as in "*bo"; found {letters!r}')
    if "->" in letters:
        axes.sort(key=lambda axis: "boi".index(axis[0]))
    return [number for number, (_, is_marked) in enumerate(axes) if is_marked]


def padded_size(size: int) -> int:
    """The size up to which an axis is padded."""
    return max(LEAST, 1 << (size - 1).bit_length()) if size else LEAST


class Counts:
    """The real sizes of the padded axes of one call, by name. Axes of one size are one axis."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def padded(self, path: str, array: Array, letters: str | None) -> ArrayType:
        """The type of an argument, with the axes that its letters mark padded."""
        marks = [] if letters is None else marked_axes(letters)
        shape, counts = [*array.shape], dict[int, str]()
        for number in marks:
            if number >= array.ndim:
                raise ArgumentError(f"axes={letters!r} of `{path}` names more than its {array.ndim} axes")
            size = array.shape[number]
            shape[number] = padded_size(size)
            counts[number] = self.names.setdefault(size, self._name(path))
        return ArrayType(tuple(shape), array.dtype, tuple(counts.items()))

    def _name(self, path: str) -> str:
        stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in path) + "_count"
        name, number = stem, 1
        while name in self.names.values():
            number += 1
            name = f"{stem}{number}"
        return name


def padded_axes(kinds: Iterable[ArrayType]) -> PaddedAxes[Index]:
    """The padded axes of some arguments."""
    sizes = {name: kind.shape[number] for kind in kinds for number, name in kind.counts}
    return PaddedAxes({name: Index(name, size + 1) for name, size in sizes.items()})


def real_sizes(kinds: Iterable[ArrayType], arrays: Iterable[Array]) -> dict[str, int]:
    """The real sizes of the padded axes of a call."""
    pairs = zip(kinds, arrays, strict=True)
    return {name: array.shape[number] for kind, array in pairs for number, name in kind.counts}


def write_padded(memory: Array, array: Array) -> None:
    """Copies an array into a larger one, whose further rows repeat the last one: what is computed from these
    is as finite as what is computed from real rows.
    """
    memory[tuple([slice(size) for size in array.shape])] = array
    for axis, (size, room) in enumerate(zip(array.shape, memory.shape, strict=True)):
        if size < room:
            ahead = (slice(None),) * axis
            memory[(*ahead, slice(size, None))] = memory[(*ahead, slice(size - 1, size))] if size else 0


def padded_copy(array: Array, kind: ArrayType) -> Array:
    """An array in the size up to which it is padded."""
    copy = np.empty(kind.shape, kind.dtype)
    write_padded(copy, array)
    return copy


def zero_padded(value: Any, shape: tuple[int, ...], room: tuple[int, ...]) -> Any:
    """A cotangent of some shape in a larger one, zero elsewhere. Raises `ArgumentError` for another number of
    elements.
    """
    array = np.asarray(value)
    if array.size != math.prod(shape):
        raise ArgumentError(f"a cotangent has the shape of its result, {shape}; found {array.shape}")
    copy = np.zeros(room, array.dtype)
    copy[tuple(map(slice, shape))] = array.reshape(shape)
    return copy
