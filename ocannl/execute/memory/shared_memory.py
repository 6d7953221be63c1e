"""Memory that other libraries share, and how much of it there is."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.ir.errors import DeviceError
from ocannl.execute.memory.node import written_by_others
from ocannl.program.text.text_table import table
from ocannl.program.values import Contents
from ocannl.runtime.cuda.gpu import CudaMemory, Gpu, SharedMemory
from ocannl.runtime.device import Device, Memory
from ocannl.runtime.memory import HostMemory, SharedHostMemory


def share(memory: Memory, where: str) -> SharedMemory | SharedHostMemory:
    """Memory as other libraries take it. Raises `DeviceError` for memory in parts."""
    if isinstance(memory, CudaMemory):
        return SharedMemory(memory)
    if not isinstance(memory, HostMemory):
        raise DeviceError(f"the memory of {where} is not shared: ctx[t] is a copy of it")
    written_by_others(memory)
    return SharedHostMemory(memory)


def copied_on_device(memory: Memory, values: object) -> bool:
    """Copies an array that another library has on the same device, if it is there; returns whether it is."""
    return isinstance(memory, CudaMemory) and memory.copy(values)


def set_contents(memory: Memory, contents: Contents) -> None:
    """Sets memory to the contents of data, which may have other axes; within one GPU without the host."""
    if not isinstance(contents, CudaMemory):
        memory.write(contents.reshape(memory.shape))
    elif isinstance(memory, CudaMemory) and memory.device.number == contents.device.number:
        memory.take(contents.address)
    else:
        memory.write(contents.read().reshape(memory.shape))


def memory_table(device: Device, sizes: Sequence[tuple[int, str]]) -> str:
    """The nodes by the bytes that they have, and their sum; of a GPU, also how many it has, and are free."""
    rows = [("node", "bytes"), *((label, str(size)) for size, label in sorted(sizes, reverse=True))]
    total = f"{sum(size for size, _ in sizes)} bytes"
    if isinstance(device, Gpu):
        free, whole = device.free_bytes()
        total += f"; {free} of {whole} bytes of {device.name} are free"
    return f"{table(rows)}\n{total}"
