"""The types of `cuda.bindings.driver` that its stand-in has: enumerations, structures, and handles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import TypeAlias

from support.cuda_kernels import Kernel
from support.cuda_tensor_maps import ENUMS as TENSOR_MAP_ENUMS


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class CUdevice_attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115


class CUfunction_attribute(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class CUstream_flags(IntEnum):
    CU_STREAM_NON_BLOCKING = 1


class CUevent_flags(IntEnum):
    CU_EVENT_DEFAULT = 0
    CU_EVENT_DISABLE_TIMING = 2


class CUjit_option(IntEnum):
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
    CU_JIT_GENERATE_LINE_INFO = 13


class CUmemPool_attribute(IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4


ENUMS = (
    CUresult,
    CUdevice_attribute,
    CUfunction_attribute,
    CUstream_flags,
    CUevent_flags,
    CUjit_option,
    CUmemPool_attribute,
    *TENSOR_MAP_ENUMS,
)


class cuuint64_t(int):
    pass


class CUdeviceptr(int):
    pass


class CUDA_KERNEL_NODE_PARAMS(SimpleNamespace):
    FIELDS = (
        "func",
        *("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"),
        *("sharedMemBytes", "kernelParams"),
    )

    def __init__(self) -> None:
        super().__init__(func=None, **dict.fromkeys(self.FIELDS[1:], 0))

    def __setattr__(self, name: str, value: object) -> None:
        assert name in self.FIELDS
        super().__setattr__(name, value)


Work: TypeAlias = Callable[[], CUresult | None]
"""A step of a stream when its turn has come; None while it waits for something else."""


@dataclass(eq=False)
class Module:
    kernels: dict[str, Kernel]


@dataclass(eq=False)
class Event:
    has_time: bool = True
    time: float | None = None
    has_come: bool = True
    recorded: int = 0
    come: int = 0
    """How often it was recorded, and the last of these records that has come."""


@dataclass(eq=False)
class Stream:
    waiting: deque[Work] = field(default_factory=deque[Work])
    exchanges: int = 0
    """How many of these wait for other GPUs."""

    def __int__(self) -> int:
        return id(self)


@dataclass(eq=False)
class Context:
    retained: int = 0


@dataclass(eq=False)
class Pool:
    threshold: int = 0


@dataclass(frozen=True)
class Call:
    """A kernel as it was launched: its arguments are copied, and the numbers of its tensor maps."""

    kernel: Kernel
    arguments: tuple[int, ...]
    maps: tuple[int, ...] = ()


@dataclass(eq=False)
class Node:
    """A node of a graph, which waits for others."""

    work: Call | Event
    after: tuple[Node, ...]


@dataclass(eq=False)
class Graph:
    nodes: list[Node] = field(default_factory=list[Node])


@dataclass(eq=False)
class GraphExec:
    graph: Graph
    work: dict[Node, Call | Event]
