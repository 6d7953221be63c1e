"""Ids of several axes, whose shapes are broadcast to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import spec_apply
from ocannl.program.memory.memory_axes import MemoryAxes, Slot
from ocannl.program.values import Value


class IdsTogether:
    """The slots of ids in one spec, where axes of size 1 are broadcast as in NumPy.

    Shapes meet at their ends. An axis that has one position, where others have more, is read at that one.
    Raises `ShapeError` where the number of axes is not known, `ArgumentError` for sizes that do not fit.
    """

    def __init__(self, ids: Sequence[Value]) -> None:
        self.ids = ids
        all_axes = [*map(MemoryAxes, ids)]
        shapes = [axes.sizes if len(ids) > 1 else [None] * len(axes.places) for axes in all_axes]
        self.sizes = _together(shapes)
        """The one shape; of the only ids, sizes are not asked for."""
        self.names = [f"i{number}" for number in range(len(self.sizes))]
        self.slots = [broadcast_slot(axes, self.names, self.sizes) for axes in all_axes]

    def broadcast(self) -> list[Value]:
        """The ids, each of the one shape unless it is one number."""
        result = "".join(f"{name}, " for name in self.names)
        dims = [(name, Dim(size)) for name, size in zip(self.names, self.sizes, strict=True) if size]

        def broadcast(one: Value, slot: Slot) -> Value:
            if slot.axes in ([], self.names):
                return one
            return spec_apply(f"{slot} => {result}", "add", "mul", [one], dims)

        return [*map(broadcast, self.ids, self.slots)]


def broadcast_slot(axes: MemoryAxes, names: Sequence[str], sizes: Sequence[int | None]) -> Slot:
    """The slot of a tensor that is broadcast to axes of some names and sizes, as in NumPy: its axes are the
    last of these. An axis of size 1 beside a larger one has the index 0.
    """
    first = len(names) - len(axes.places)
    if first < 0:
        raise ArgumentError(f"`{axes.label}` of shape {axes.shape} has more axes than it is broadcast to")
    pairs = zip(axes.places, names[first:], sizes[first:], strict=True)
    tokens = ["0" if axes.size(place) == 1 and size not in (1, None) else name for place, name, size in pairs]
    return axes.numbered("k").with_axes({f"k{number}": (token,) for number, token in enumerate(tokens)})


def _together(shapes: Sequence[Sequence[int | None]]) -> list[int | None]:
    if len(shapes) == 1:
        return [*shapes[0]]
    try:
        return [*np.broadcast_shapes(*map(cast("Any", tuple), shapes))]
    except ValueError:
        found = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ArgumentError(f"ids of several axes are broadcast to one shape, found {found}") from None
