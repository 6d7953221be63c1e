"""Runs Metal text on the GPU of a Mac, through pyobjc.

Arrays lie in memory that the CPU and the GPU share, so nothing is copied. A run of a routine is one command
buffer, with its kernels in order, and ends when they have; a new one begins where a loop looks at its flag.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.loops import StepOp
from ocannl.lowering.entry import EntryLayout
from ocannl.lowering.kernels.description import Dispatch, descriptions
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET
from ocannl.runtime.host.run import HostRun
from ocannl.runtime.interface import Interface
from ocannl.runtime.kernel_plan import KernelRun, Look, Plan, kernel_plan
from ocannl.runtime.memory import ArgBlock, Entry, HostMemory

FRAMEWORK = "Metal"
MISSING = (
    "Metal runs on a Mac, through the package pyobjc-framework-Metal: pip install 'ocannl[metal]' there; "
    "this Python has no module `Metal`"
)


class MetalDevice:
    """The default GPU of a Mac, and the buffers of arrays on it by their addresses.

    Raises `DeviceError` where there is no GPU for Metal, or the package is missing.
    """

    key = ""
    language = "metal"
    target = DEFAULT_TARGET

    def __init__(self) -> None:
        try:
            self.framework: Any = importlib.import_module(FRAMEWORK)
            self.objc: Any = importlib.import_module("objc")
        except ImportError:
            raise DeviceError(MISSING) from None
        self.device: Any = self.framework.MTLCreateSystemDefaultDevice()
        if self.device is None:
            raise DeviceError("this Mac has no GPU for Metal")
        self.name = str(self.device.name())
        self.queue: Any = self.device.newCommandQueue()
        self.buffers: dict[int, Any] = {}

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """A zeroed C-contiguous array in a shared buffer, which `buffers` has while the array lives."""
        element = np.dtype(dtype)
        size = max(1, math.prod(shape) * element.itemsize)
        buffer = self.device.newBufferWithLength_options_(size, self.framework.MTLResourceStorageModeShared)
        if buffer is None:
            raise DeviceError(f"Metal has no memory for a buffer of {size} bytes")
        memory = np.frombuffer(buffer.contents().as_buffer(size), np.uint8)
        memory[:] = 0
        array = memory[: math.prod(shape) * element.itemsize].view(element).reshape(shape)
        self.buffers[memory.ctypes.data] = buffer
        weakref.finalize(memory, self.buffers.pop, memory.ctypes.data)
        return array

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> HostMemory:
        """Memory that the CPU and the GPU share. Raises `DeviceError` where there is not enough."""
        return HostMemory(self.array(shape, dtype))

    def synchronize(self) -> None:
        """A run has ended when its call returns."""

    def text(self, module: ModuleOp) -> str:
        return to_metal(module)

    def program(self, text: str, interface: Interface) -> MetalProgram:
        """The routine of Metal text that has one. Raises `DeviceError`."""
        options = self.framework.MTLCompileOptions.alloc().init()
        options.setFastMathEnabled_(False)
        library, error = self.device.newLibraryWithSource_options_error_(text, options, None)
        if library is None:
            raise DeviceError(f"Metal rejects the kernels: {error}")
        routines = descriptions(text)
        kernels = {kernel.function: kernel for routine in routines for kernel in routine.kernels}
        pipelines = {name: self.pipeline(library, kernel) for name, kernel in kernels.items()}
        return MetalProgram(self, kernel_plan(routines, interface.layout), interface.layout, pipelines)

    def pipeline(self, library: Any, kernel: Dispatch) -> Any:
        """The compute pipeline of a kernel. Raises `DeviceError` if the GPU has too few threads for it."""
        function = library.newFunctionWithName_(kernel.function)
        found, error = self.device.newComputePipelineStateWithFunction_error_(function, None)
        if found is None:
            raise DeviceError(f"Metal has no pipeline for kernel {kernel.function}: {error}")
        most, width = found.maxTotalThreadsPerThreadgroup(), found.threadExecutionWidth()
        if most < kernel.threads:
            raise DeviceError(f"kernel {kernel.function} has {kernel.threads} threads, this GPU takes {most}")
        if width != WARP:
            raise DeviceError(f"this GPU has SIMD groups of {width} threads; kernels are for {WARP}")
        return found


class MetalProgram:
    """A routine on a GPU. `address` is that of a function `void f(ptr args)`, as native code has it.

    Errors of a run are raised by `raise_first`; until then, further runs do nothing.
    """

    def __init__(self, on: MetalDevice, plan: Plan, layout: EntryLayout, pipelines: dict[str, Any]) -> None:
        self.on = on
        self.pipelines = pipelines
        self.slots = layout.slots
        self.plan = plan
        self.failure: BaseException | None = None
        self.entry = Entry(self.enter)
        self.address = ctypes.cast(self.entry, ctypes.c_void_p).value or 0

    def bind(self, args: ArgBlock) -> MetalRun:
        return MetalRun(self.address, args, self)

    def enter(self, args: int) -> None:
        """Runs on the slots at an address. No exception may leave: native code calls this."""
        if self.failure is None:
            try:
                with self.on.objc.autorelease_pool():
                    self.run(list((ctypes.c_int64 * self.slots).from_address(args)))
            except BaseException as failure:
                self.failure = failure

    def run(self, slots: list[int]) -> None:
        """Runs the kernels, and waits for them. Raises `DeviceError`."""
        waiting: list[KernelRun] = []
        at = 0
        while at < len(self.plan):
            step, at = self.plan[at], at + 1
            if isinstance(step, KernelRun):
                waiting.append(step)
                continue
            self.run_together(waiting, slots)
            waiting = []
            assert isinstance(step, Look), "no mesh has GPUs of Apple"
            slot, offset = step.place
            if not step.goes_on(ctypes.string_at(slots[slot] + offset, step.bytes)):
                at = step.stop
        self.run_together(waiting, slots)

    def run_together(self, kernels: Sequence[KernelRun], slots: list[int]) -> None:
        """Runs kernels as one command buffer, and waits for them."""
        if not kernels:
            return
        commands = self.on.queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        for run in kernels:
            self.encode(encoder, run, slots)
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        if (error := commands.error()) is not None:
            raise DeviceError(f"Metal could not run the kernels: {error}")

    def encode(self, encoder: Any, run: KernelRun, slots: list[int]) -> None:
        size, kernel = self.on.framework.MTLSizeMake, run.kernel
        encoder.setComputePipelineState_(self.pipelines[kernel.function])
        buffers = [(self.on.buffers[slots[slot]], offset) for slot, offset in run.buffers]
        if kernel.structure:
            self.encode_structure(encoder, buffers)
        else:
            for k, (buffer, offset) in enumerate(buffers):
                encoder.setBuffer_offset_atIndex_(buffer, offset, k)
        for k, index in enumerate(run.indices, 1 if kernel.structure else len(buffers)):
            value = index.value if index.slot is None else slots[index.slot]
            encoder.setBytes_length_atIndex_(struct.pack("=q", value), 8, k)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(
            size(kernel.blocks, 1, 1), size(kernel.threads, 1, 1)
        )

    def encode_structure(self, encoder: Any, buffers: list[tuple[Any, int]]) -> None:
        """Passes the addresses of buffers, and makes the buffers resident for the GPU."""
        framework = self.on.framework
        usage = framework.MTLResourceUsageRead | framework.MTLResourceUsageWrite
        for buffer, _ in buffers:
            encoder.useResource_usage_(buffer, usage)
        addresses = [buffer.gpuAddress() + offset for buffer, offset in buffers]
        encoder.setBytes_length_atIndex_(
            struct.pack(f"={len(addresses)}Q", *addresses), 8 * len(addresses), 0
        )

    def raise_first(self) -> None:
        """Raises `DeviceError` for the first error of a run, if there is one, and forgets it. Interrupts
        stay.
        """
        failure, self.failure = self.failure, None
        if isinstance(failure, Exception) and not isinstance(failure, DeviceError):
            raise DeviceError(f"Metal could not run the kernels: {failure!r}") from failure
        if failure is not None:
            raise failure


class MetalRun(HostRun):
    """The kernels of a routine on a block of arguments."""

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        raise DeviceError("there are no times of single kernels on Metal")
