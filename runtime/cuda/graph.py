"""CUDA graphs of kernels, run by one launch."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.lowering.kernels.description import Dispatch
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.tensor_maps import encode


class Launch:
    """A kernel with its arguments, whose `values` and tensor `maps` are in memory that the driver reads."""

    def __init__(self, device: Gpu, kernel: Dispatch, function: Any, values: NDArray[np.int64]) -> None:
        self.maps = [encode(device, map, int(values[map.buffer])) for map in kernel.maps]
        self.device = device
        self.kernel = kernel
        self.failure = f"kernel {kernel.function} cannot run"
        self.values = values
        places = [values.ctypes.data + 8 * k for k in range(len(values))]
        self.pointers = np.array([*places, *(map.ctypes.data for map in self.maps)], np.uint64)
        self.params: Any = device.driver.api.CUDA_KERNEL_NODE_PARAMS()
        self.params.func = function
        self.params.gridDimX, self.params.gridDimY, self.params.gridDimZ = kernel.blocks, 1, 1
        self.params.blockDimX, self.params.blockDimY, self.params.blockDimZ = kernel.threads, 1, 1
        self.params.sharedMemBytes = kernel.given_shared_bytes
        self.params.kernelParams = self.pointers.ctypes.data

    def start(self) -> None:
        """Launches the kernel with the arguments that it has now. Raises `DeviceError` that names it."""
        p, device = self.params, self.device
        grid, block = (p.gridDimX, p.gridDimY, p.gridDimZ), (p.blockDimX, p.blockDimY, p.blockDimZ)
        rest = p.sharedMemBytes, device.stream, p.kernelParams, 0
        device.call(self.failure, "cuLaunchKernel", p.func, *grid, *block, *rest)

    def alone(self) -> None:
        """Launches the kernel, and waits for it. Raises `DeviceError` that names it."""
        self.start()
        self.device.synchronize(f"kernel {self.kernel.function} failed")


class KernelGraph:
    """A graph, whose nodes run one after the other, or each when those that it waits for have run.

    It is built from nodes, and not captured: nothing else that a process does meanwhile can get into it.
    """

    def __init__(self, device: Gpu, owner: object) -> None:
        """`owner` has the code of the kernels, which must be there until the graph is gone."""
        self.device, self.owner = device, owner
        self.graph: Any = device.ask("cuGraphCreate", 0)
        weakref.finalize(self, destroy, device, "cuGraphDestroy", self.graph, owner)
        self.last: list[Any] = []
        self.executable: Any = None

    def add(self, launch: Launch, after: Sequence[Any] | None = None) -> Any:
        """Adds a kernel with the arguments that it has now, which waits for some nodes, or for the last one;
        returns its node.
        """
        return self._append(launch.failure, "cuGraphAddKernelNode", launch.params, after)

    def add_event(self, event: Any) -> None:
        """Adds the recording of an event."""
        self._append("the GPU has no clock", "cuGraphAddEventRecordNode", event)

    def _append(self, failure: str, function: str, what: Any, after: Sequence[Any] | None = None) -> Any:
        nodes = self.last if after is None else list(after)
        node = self.device.call(failure, function, self.graph, nodes, len(nodes), what)
        self.last = [node]
        return node

    def finish(self) -> None:
        """Makes the graph one that can be launched."""
        device = self.device
        self.executable = device.ask("cuGraphInstantiate", self.graph, 0)
        weakref.finalize(self, destroy, device, "cuGraphExecDestroy", self.executable, self.owner)

    def set_arguments(self, node: Any, launch: Launch) -> None:
        """Gives a kernel the arguments that it has now, for all launches that follow."""
        self.device.call(
            launch.failure, "cuGraphExecKernelNodeSetParams", self.executable, node, launch.params
        )

    def launch(self) -> None:
        """Runs all kernels, after earlier launches. Raises `DeviceError`, also for errors of these.

        Small routines take no longer than the calls here, which are direct. Where one fails, the same calls
        again tell why.
        """
        device, api = self.device, self.device.driver.api
        try:
            (failure,) = api.cuCtxSetCurrent(device.context)
            if not failure:
                (failure,) = api.cuGraphLaunch(self.executable, device.stream)
        except (RuntimeError, ValueError):
            failure = True
        if failure:
            device.enter()
            device.ask("cuGraphLaunch", self.executable, device.stream)


def destroy(device: Gpu, function: str, handle: Any, _: object) -> None:
    """Destroys a graph, in whichever thread. Its errors are those of an earlier call, which has raised
    them.
    """
    with device.for_now() as api:
        getattr(api, function)(handle)
