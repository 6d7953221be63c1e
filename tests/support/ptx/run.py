"""Runs a text of PTX on arrays of NumPy, as its host would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.ptx import bulk_copies
from support.ptx.machine import launch
from support.ptx.memory import Counts, Global
from support.ptx.text import functions

from ocannl.lowering.kernels.calls import TensorMap
from ocannl.lowering.kernels.description import descriptions

# Where arrays begin, and at what multiples of bytes.
FIRST, ALIGNMENT = 1 << 33, 256


def run_ptx(
    text: str,
    arrays: Mapping[str, NDArray[Any]],
    indices: Mapping[str, int] | None = None,
    apart: bool = False,
) -> Counts:
    """Runs the kernels of the routine in a text; nodes that have no array are left out of the result."""
    (routine,) = descriptions(text)
    counts, places, place = Counts(), dict[str, int](), FIRST
    memory = dict[int, NDArray[np.uint8]]()
    for buffer in routine.buffers:
        array = arrays.get(buffer.name)
        places[buffer.name] = place
        memory[place] = np.full(buffer.bytes, 0xFF, np.uint8)
        if array is not None:
            memory[place][:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        place += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    for kernel in routine.kernels:
        arguments = [places[name] for name in kernel.buffers]
        arguments += [(indices or {})[name] for name in kernel.indices]
        maps = {number: of_buffer(map, arguments[map.buffer]) for number, map in enumerate(kernel.maps, 1)}
        function = functions(text)[kernel.function]
        shape = kernel.blocks, kernel.threads, kernel.given_shared_bytes
        launch(function, *shape, [*arguments, *maps], Global(memory, maps), counts, apart)
    for name, array in arrays.items():
        array[...] = memory[places[name]].view(array.dtype).reshape(array.shape)
    return counts


def of_buffer(map: TensorMap, address: int) -> bulk_copies.TensorMap:
    """The map that a driver makes of a buffer in row-major order."""
    size, sizes = map.bytes, map.shape[::-1]
    extents = (map.extents or map.shape)[::-1]
    strides = [size * int(np.prod(sizes[:k])) for k in range(1, len(sizes))]
    return bulk_copies.TensorMap(address, size, extents, strides, map.box[::-1], map.rounds)
