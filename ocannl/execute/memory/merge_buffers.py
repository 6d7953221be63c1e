"""Merge buffers that are copies: nodes with the values that memory has in another context."""

from __future__ import annotations

from ocannl.execute.memory.node import Node, host_array
from ocannl.execute.memory.shared_memory import copied_on_device
from ocannl.runtime.cuda.gpu import CudaMemory, SharedMemory
from ocannl.runtime.device import Memory


class MergeBuffer(Node):
    """A node that gets the value of another before each run that reads it."""

    __slots__ = ("source",)

    def __init__(self, memory: Memory, source: Node) -> None:
        self.source = source
        super().__init__(memory)

    @property
    def written(self) -> bool:
        """Whether there is a value to copy."""
        return self.source.written

    @written.setter
    def written(self, written: bool) -> None:
        """Nothing: that is known of the source."""

    def fill(self) -> None:
        """Copies the value; within one GPU without the host."""
        source = self.source.memory
        if not _copied_on_gpu(source, self.memory):
            array = host_array(source)
            self.memory.write(source.read() if array is None else array)


def _copied_on_gpu(source: Memory, target: Memory) -> bool:
    if not isinstance(source, CudaMemory) or not isinstance(target, CudaMemory):
        return False
    is_one = source.device.number == target.device.number
    return is_one and copied_on_device(target, SharedMemory(source))
