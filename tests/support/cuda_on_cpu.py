"""CUDA without a GPU: a stand-in for the module `cuda.bindings.driver`, whose kernels the CPU emulates.

It is stricter than a driver: work waits in its stream until somebody synchronizes, addresses of the GPU are
none of the CPU, and what is out of place is an assertion.
"""

from __future__ import annotations

import ctypes
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from support.cuda_handles import (
    CUDA_KERNEL_NODE_PARAMS,
    Call,
    Context,
    CUdevice_attribute,
    CUevent_flags,
    CUfunction_attribute,
    CUjit_option,
    CUmemPool_attribute,
    CUresult,
    CUstream_flags,
    Event,
    Graph,
    GraphExec,
    Module,
    Node,
    Stream,
    cuuint64_t,
)
from support.cuda_kernels import Kernel, kernels_of, note_kernels
from support.cuda_memory import DeviceMemory
from support.cuda_queues import OK, Answer
from support.cuda_tensor_maps import (
    CUtensorMapDataType,
    CUtensorMapFloatOOBfill,
    CUtensorMapInterleave,
    CUtensorMapL2promotion,
    CUtensorMapSwizzle,
    TensorMaps,
)
from support.ptx.machine import launch
from support.ptx.memory import Counts, Global
from support.ptx.text import functions

from ocannl.runtime.cuda.driver import BINDINGS
from ocannl.runtime.cuda.ptxas import assemble


class FakeDriver(DeviceMemory):
    """Stands for the module, and a driver with some equal GPUs.

    Attributes:
        count, name, capability, version, has_pools: what there is.
        starts: what `cuInit` answers; `RuntimeError` for no library of the driver, `ValueError` for
            a result that the bindings do not know.
        log: what the compiler of the driver says of all text, which it then rejects with `rejects`.
        fails: what a kernel of a name does.
        assembles: whether PTX goes through ptxas, for that architecture.
        counts: if there is one, kernels run as PTX, and what their accesses to memory cost is added to it.
        calls: the names of all functions that were called.
        launched: the kernels that were run, by launches and graphs.
        event_time: the milliseconds that the recording of an event takes.
        choose: which of the nodes of a graph that need not wait runs next.
    """

    CUresult, CUdevice_attribute, CUstream_flags = CUresult, CUdevice_attribute, CUstream_flags
    CUfunction_attribute = CUfunction_attribute
    CUevent_flags, CUjit_option, CUmemPool_attribute = CUevent_flags, CUjit_option, CUmemPool_attribute
    CUDA_KERNEL_NODE_PARAMS, cuuint64_t = CUDA_KERNEL_NODE_PARAMS, cuuint64_t
    CUtensorMapDataType, CUtensorMapInterleave = CUtensorMapDataType, CUtensorMapInterleave
    CUtensorMapSwizzle, CUtensorMapL2promotion = CUtensorMapSwizzle, CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = CUtensorMapFloatOOBfill

    def __init__(self) -> None:
        super().__init__()
        self.count, self.name, self.capability, self.version = 1, b"Fake GPU", (8, 0), 12080
        self.has_pools = True
        self.starts: CUresult | Exception = CUresult.CUDA_SUCCESS
        self.log, self.rejects = b"", CUresult.CUDA_SUCCESS
        self.fails: dict[str, CUresult] = {}
        self.assembles: str | None = None
        self.counts: Counts | None = None
        self.calls: list[str] = []
        self.launched: list[Call] = []
        self.event_time = 0.0
        self.choose: Callable[[list[Node]], Node] = lambda ready: ready[0]
        self.contexts = defaultdict[int, Context](Context)
        self.maps = TensorMaps(self.host)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("cu") and callable(found) and not isinstance(found, type):
            self.calls.append(name)
        return found

    # Devices.

    def cuInit(self, Flags: int) -> Answer:
        assert Flags == 0
        if isinstance(self.starts, Exception):
            raise self.starts
        return (self.starts,)

    def cuGetErrorName(self, error: CUresult) -> Answer:
        return CUresult.CUDA_SUCCESS, error.name.encode()

    def cuGetErrorString(self, error: CUresult) -> Answer:
        words = error.name.removeprefix("CUDA_ERROR_").replace("_", " ").lower()
        return CUresult.CUDA_SUCCESS, words.encode()

    def cuDriverGetVersion(self) -> Answer:
        return CUresult.CUDA_SUCCESS, self.version

    def cuGetProcAddress(self, symbol: bytes, cudaVersion: int, flags: int) -> Answer:
        assert (symbol, flags) == (b"cuTensorMapEncodeTiled", 0)
        if cudaVersion > self.version:
            return CUresult.CUDA_SUCCESS, 0, 2
        return CUresult.CUDA_SUCCESS, ctypes.cast(self.maps.encode, ctypes.c_void_p).value, 0

    def cuDeviceGetCount(self) -> Answer:
        return CUresult.CUDA_SUCCESS, self.count

    def cuDeviceGet(self, ordinal: int) -> Answer:
        assert 0 <= ordinal < self.count
        return CUresult.CUDA_SUCCESS, ordinal

    def cuDeviceGetName(self, length: int, dev: int) -> Answer:
        return CUresult.CUDA_SUCCESS, (self.name + b"\0").ljust(length)

    def cuDeviceGetAttribute(self, attrib: CUdevice_attribute, dev: int) -> Answer:
        match attrib:
            case CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
                return CUresult.CUDA_SUCCESS, self.capability[0]
            case CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
                return CUresult.CUDA_SUCCESS, self.capability[1]
            case CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
                return CUresult.CUDA_SUCCESS, int(self.has_pools)

    @property
    def context(self) -> Context:
        """That of the first GPU."""
        return self.contexts[0]

    def cuDevicePrimaryCtxRetain(self, dev: int) -> Answer:
        self.contexts[dev].retained += 1
        return CUresult.CUDA_SUCCESS, self.contexts[dev]

    def cuDevicePrimaryCtxRelease(self, dev: int) -> Answer:
        assert self.contexts[dev].retained > 0
        self.contexts[dev].retained -= 1
        return OK

    def cuCtxSetCurrent(self, ctx: Context) -> Answer:
        assert any(ctx is known for known in self.contexts.values())
        assert ctx.retained > 0
        self.here.context = ctx
        return OK

    def cuCtxPushCurrent(self, ctx: Context) -> Answer:
        before = getattr(self.here, "context", None)
        answer = self.cuCtxSetCurrent(ctx)
        self.here.before = [*getattr(self.here, "before", []), before]
        return answer

    def cuCtxPopCurrent(self) -> Answer:
        *self.here.before, self.here.context = self.here.before
        return CUresult.CUDA_SUCCESS, self.here.context

    # Kernels.

    def cuModuleLoadDataEx(
        self, image: bytes, numOptions: int, options: list[CUjit_option], optionValues: list[Any]
    ) -> Answer:
        self.check()
        assert image.endswith(b"\0")
        assert len(options) == len(optionValues) == numOptions
        given = dict(zip(options, optionValues, strict=True))
        buffer = given[CUjit_option.CU_JIT_ERROR_LOG_BUFFER]
        assert isinstance(buffer, bytearray)
        assert len(buffer) == given[CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        if self.rejects:
            buffer[: len(self.log)] = self.log
            return self.rejects, None
        text = image[:-1].decode()
        if self.assembles:
            assemble(text, self.assembles)
        return self.made(Module(kernels_of(text)))

    def cuModuleUnload(self, hmod: Module) -> Answer:
        self.check(hmod)
        graphs = (handle for handle in self.alive if isinstance(handle, Graph))
        calls = (node.work for graph in graphs for node in graph.nodes if isinstance(node.work, Call))
        assert not any(call.kernel in hmod.kernels.values() for call in calls), "a graph has its kernels"
        del self.alive[hmod]
        for kernel in hmod.kernels.values():
            self.alive.pop(kernel, None)
        return OK

    def cuModuleGetFunction(self, hmod: Module, name: bytes) -> Answer:
        self.check(hmod)
        return self.made(hmod.kernels[name.decode()])

    def cuFuncSetAttribute(self, hfunc: Kernel, attrib: CUfunction_attribute, value: int) -> Answer:
        self.check(hfunc)
        assert attrib == CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        hfunc.most_shared_bytes = value
        return OK

    def called(self, params: CUDA_KERNEL_NODE_PARAMS) -> Call:
        """A launch, with the arguments that it has now."""
        kernel = params.func
        self.check(kernel)
        assert isinstance(kernel, Kernel)
        assert (params.gridDimX, params.gridDimY, params.gridDimZ) == (kernel.launch.blocks, 1, 1)
        assert (params.blockDimX, params.blockDimY, params.blockDimZ) == (kernel.launch.threads, 1, 1)
        assert params.sharedMemBytes == kernel.given_shared_bytes
        assert params.sharedMemBytes <= kernel.most_shared_bytes
        count = len(kernel.sizes) + len(kernel.indices)
        places = (ctypes.c_uint64 * (count + len(kernel.maps))).from_address(params.kernelParams)
        pointers, maps = places[:count], [self.maps.at(place) for place in places[count:]]
        arguments = tuple(ctypes.c_int64.from_address(pointer).value for pointer in pointers)
        for size, address in zip(kernel.sizes, arguments, strict=False):
            self.host(address, size)
        for number, map in zip(maps, kernel.maps, strict=True):
            made = self.maps.made[number]
            assert (made.address, made.box) == (arguments[map.buffer], [*map.box[::-1]])
        return Call(kernel, arguments, tuple(maps))

    def run(self, call: Call) -> CUresult:
        """The run of a kernel when its turn has come."""
        kernel = call.kernel
        assert kernel in self.alive
        self.launched.append(call)
        self.time += 0.25
        if failure := self.fails.get(kernel.name):
            return failure
        if self.counts is not None:
            shape = kernel.launch.blocks, kernel.launch.threads, kernel.given_shared_bytes
            function = functions(kernel.ptx)[kernel.name]
            arguments = (*call.arguments, *call.maps)
            launch(function, *shape, arguments, Global(self.memory, self.maps.made), self.counts)
            return CUresult.CUDA_SUCCESS
        for size, slot, address in zip(kernel.sizes, kernel.slots, call.arguments, strict=False):
            kernel.args.slots[slot] = self.host(address, size, is_running=True)
        for slot, value in zip(kernel.index_slots, call.arguments[len(kernel.sizes) :], strict=True):
            kernel.args.values[slot] = value
        kernel.run()
        return CUresult.CUDA_SUCCESS

    def cuLaunchKernel(
        self,
        f: Kernel,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: Stream,
        kernelParams: int,
        extra: int,
    ) -> Answer:
        assert extra == 0
        params = CUDA_KERNEL_NODE_PARAMS()
        params.func, params.sharedMemBytes, params.kernelParams = f, sharedMemBytes, kernelParams
        params.gridDimX, params.gridDimY, params.gridDimZ = gridDimX, gridDimY, gridDimZ
        params.blockDimX, params.blockDimY, params.blockDimZ = blockDimX, blockDimY, blockDimZ
        call = self.called(params)
        return self.enqueue(hStream, lambda: self.run(call))

    # Graphs.

    def cuGraphCreate(self, flags: int) -> Answer:
        assert flags == 0
        self.check()
        return self.made(Graph())

    def add_node(
        self, graph: Graph, dependencies: list[Node], numDependencies: int, work: Call | Event
    ) -> Answer:
        """Nodes follow those that they wait for."""
        self.check(graph)
        assert len(set(dependencies)) == len(dependencies) == numDependencies
        assert set(dependencies) <= set(graph.nodes)
        node = Node(work, tuple(dependencies))
        graph.nodes.append(node)
        return CUresult.CUDA_SUCCESS, node

    def cuGraphAddKernelNode(
        self,
        hGraph: Graph,
        dependencies: list[Node],
        numDependencies: int,
        nodeParams: CUDA_KERNEL_NODE_PARAMS,
    ) -> Answer:
        return self.add_node(hGraph, dependencies, numDependencies, self.called(nodeParams))

    def cuGraphAddEventRecordNode(
        self, hGraph: Graph, dependencies: list[Node], numDependencies: int, event: Event
    ) -> Answer:
        self.check(event)
        return self.add_node(hGraph, dependencies, numDependencies, event)

    def cuGraphInstantiate(self, hGraph: Graph, flags: int) -> Answer:
        assert flags == 0
        self.check(hGraph)
        return self.made(GraphExec(hGraph, {node: node.work for node in hGraph.nodes}))

    def cuGraphExecKernelNodeSetParams(
        self, hGraphExec: GraphExec, hNode: Node, nodeParams: CUDA_KERNEL_NODE_PARAMS
    ) -> Answer:
        self.check(hGraphExec, hGraphExec.graph)
        call = self.called(nodeParams)
        before = hGraphExec.work[hNode]
        assert isinstance(before, Call)
        assert call.kernel is before.kernel
        hGraphExec.work[hNode] = call
        return OK

    def cuGraphLaunch(self, hGraphExec: GraphExec, hStream: Stream) -> Answer:
        self.check(hGraphExec)
        work = [hGraphExec.work[node] for node in self.in_order(hGraphExec.graph)]

        def run() -> CUresult:
            for step in work:
                if isinstance(step, Event):
                    self.time += self.event_time
                    step.time = self.time
                elif failure := self.run(step):
                    return failure
            return CUresult.CUDA_SUCCESS

        return self.enqueue(hStream, run)

    def in_order(self, graph: Graph) -> list[Node]:
        """The nodes in some order in which each comes after those that it waits for."""
        waiting, found = list(graph.nodes), dict[Node, None]()
        while waiting:
            ready = [node for node in waiting if all(other in found for other in node.after)]
            found[node := self.choose(ready)] = None
            waiting.remove(node)
        return list(found)

    def cuGraphExecDestroy(self, hGraphExec: GraphExec) -> Answer:
        self.check(hGraphExec)
        del self.alive[hGraphExec]
        return OK

    def cuGraphDestroy(self, hGraph: Graph) -> Answer:
        self.check(hGraph)
        assert not any(isinstance(handle, GraphExec) and handle.graph is hGraph for handle in self.alive)
        del self.alive[hGraph]
        return OK


def install(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver | None) -> None:
    """Puts a driver in place of the module, or hides that."""
    monkeypatch.setitem(sys.modules, BINDINGS, driver)
    note_kernels(monkeypatch)
