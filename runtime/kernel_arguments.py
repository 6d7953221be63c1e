"""The arguments of a kernel among those of its routine."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels.description import Dispatch, RoutineDescription


@dataclass(frozen=True)
class Arguments:
    """The arguments of a kernel: slot and offset in bytes of each buffer, and the slots of indices."""

    buffers: tuple[tuple[int, int], ...]
    indices: tuple[int, ...]


def arguments(kernel: Dispatch, routine: RoutineDescription, layout: EntryLayout) -> Arguments:
    """The arguments of a kernel of a routine with such a layout."""
    offsets = {buffer.name: buffer.offset for buffer in routine.buffers}

    def place(name: str) -> tuple[int, int]:
        offset = offsets[name]
        return (layout.node_slots[name], 0) if offset is None else (layout.arena_slot, offset)

    return Arguments(
        tuple(map(place, kernel.buffers)),
        tuple(layout.index_slot + layout.indices.index(name) for name in kernel.indices),
    )
