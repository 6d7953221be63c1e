"""Runs a text of PTX on arrays of NumPy, as its host would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.ptx.machine import launch
from support.ptx.memory import Counts, Global
from support.ptx.text import functions

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
        function = functions(text)[kernel.function]
        shared = kernel.given_shared_bytes
        launch(function, kernel.blocks, kernel.threads, shared, arguments, Global(memory), counts, apart)
    for name, array in arrays.items():
        array[...] = memory[places[name]].view(array.dtype).reshape(array.shape)
    return counts
