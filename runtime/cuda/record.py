"""The recording of a GPU's memory after each of many runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.device import Memory

# Values are kept on the GPU, and read when there are so many bytes of them.
KEPT_BYTES = 2**26


class Recorder:
    """Records the values of some memory `runs` times, in an array of shape (runs, *its shape)."""

    def __init__(self, device: Gpu, memory: Memory, runs: int) -> None:
        self.device = device
        self.memory = memory
        self.values: NDArray[Any] = np.empty((runs, *memory.shape), memory.dtype)
        self.bytes = self.values[:1].nbytes
        self.room = max(1, min(runs, KEPT_BYTES // max(self.bytes, 1)))
        self.kept = device.memory((self.room, *memory.shape), memory.dtype)
        self.read = 0
        self.count = 0

    def keep(self) -> None:
        """Copies the values after all launches so far."""
        if self.count == self.room:
            self.flush()
        if self.bytes:
            to = self.kept.address + self.count * self.bytes
            arguments = to, self.memory.address, self.bytes, self.device.stream
            self.device.call("values cannot be kept", "cuMemcpyDtoDAsync", *arguments)
        self.count += 1

    def flush(self) -> None:
        """Reads the copies, after waiting for the runs."""
        self.kept.read_into(self.values[self.read : self.read + self.count])
        self.read += self.count
        self.count = 0

    def finish(self) -> NDArray[Any]:
        """All recorded values, after waiting for the runs."""
        self.flush()
        return self.values
