"""Metal without a Mac: its text compiled as C++, and a stand-in for pyobjc's module that runs it."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from ocannl.runtime.memory import aligned_array


def compiler_with_halves(*names: str) -> str | None:
    """The first compiler that has Metal's halves: on x86 Clang from version 15 on, GCC from 12."""
    for compiler in filter(None, map(shutil.which, names)):
        command = [compiler, "-x", "c++", "-fsyntax-only", "-"]
        if not subprocess.run(command, input=b"_Float16 half;", capture_output=True, check=False).returncode:
            return compiler
    return None


COMPILER = compiler_with_halves("clang++", "g++")
FOLDER = Path(__file__).parent / "metal"
# Arithmetic as it is written; `std::fma` is one instruction where the processor has one.
OPTIONS = ("-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-w", "-shared", "-fPIC", f"-I{FOLDER}")
FUNCTION = re.compile(r"^void (\w+)\((.*?)^}", re.MULTILINE | re.DOTALL)

Kernels: TypeAlias = dict[str, Callable[..., bool]]


class CompileError(Exception):
    """The C++ compiler's messages about a text."""


def compile_text(text: str) -> Kernels:
    """The kernels of Metal text as functions: `run(arguments, blocks, threads)`. Raises `CompileError`."""
    assert COMPILER is not None
    bodies = dict(FUNCTION.findall(text))
    hosts = [f"HOST(host_{name}, {name})" for name in bodies]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        source.write_text("\n".join([text, *hosts, ""]))
        done = subprocess.run(
            [COMPILER, *OPTIONS, str(source), "-o", str(library)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompileError(done.stderr)
        loaded = ctypes.CDLL(str(library))
    return {name: _caller(loaded, name, body) for name, body in bodies.items()}


def _caller(library: ctypes.CDLL, name: str, body: str) -> Callable[..., bool]:
    function = library[f"host_{name}"]
    function.restype = ctypes.c_bool
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_bool]
    waits = "threadgroup_barrier" in body or "simd_shuffle" in body

    def run(arguments: Sequence[int], blocks: int, threads: int) -> bool:
        block = (ctypes.c_void_p * len(arguments))(*arguments)
        return function(ctypes.cast(block, ctypes.c_void_p), blocks, threads, waits)

    return run


class FakeBuffer:
    def __init__(self, size: int) -> None:
        self.memory: NDArray[Any] = aligned_array((size,), np.uint8)
        self.memory[:] = 0xA5  # a new buffer has any contents

    def contents(self) -> FakeBuffer:
        return self

    def gpuAddress(self) -> int:
        return self.memory.ctypes.data

    def as_buffer(self, size: int) -> memoryview:
        return self.memory[:size].data


class FakeOptions:
    fast_math = True

    @classmethod
    def alloc(cls) -> FakeOptions:
        return cls()

    def init(self) -> FakeOptions:
        return self

    def setFastMathEnabled_(self, on: bool) -> None:
        self.fast_math = on


@dataclass
class FakeLibrary:
    kernels: Kernels

    def newFunctionWithName_(self, name: str) -> Callable[..., bool] | None:
        return self.kernels.get(name)


@dataclass
class FakePipeline:
    run: Callable[..., bool]
    device: FakeDevice

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self.device.most_threads

    def threadExecutionWidth(self) -> int:
        return self.device.width


@dataclass
class Encoded:
    """A dispatch: its pipeline, the arguments that were set before it, and its sizes."""

    pipeline: FakePipeline
    arguments: dict[int, tuple[FakeBuffer, int] | bytes]
    resources: list[FakeBuffer]
    threadgroups: tuple[int, int, int]
    threads: tuple[int, int, int]

    def run(self) -> bool:
        arguments = [argument for _, argument in sorted(self.arguments.items())]
        memory = [
            np.frombuffer(a, np.uint8) if isinstance(a, bytes) else a[0].memory[a[1] :] for a in arguments
        ]
        return self.pipeline.run([a.ctypes.data for a in memory], self.threadgroups[0], self.threads[0])


@dataclass
class FakeEncoder:
    commands: FakeCommands
    pipeline: FakePipeline | None = None
    arguments: dict[int, tuple[FakeBuffer, int] | bytes] = field(default_factory=dict)
    resources: list[FakeBuffer] = field(default_factory=list)

    def useResource_usage_(self, buffer: FakeBuffer, usage: int) -> None:
        assert usage == FakeMetal.MTLResourceUsageRead | FakeMetal.MTLResourceUsageWrite
        self.resources.append(buffer)

    def setComputePipelineState_(self, pipeline: FakePipeline) -> None:
        self.pipeline, self.arguments, self.resources = pipeline, {}, []

    def setBuffer_offset_atIndex_(self, buffer: FakeBuffer, offset: int, index: int) -> None:
        assert index < 31
        self.arguments[index] = buffer, offset

    def setBytes_length_atIndex_(self, data: bytes, length: int, index: int) -> None:
        assert len(data) == length <= 4096
        assert index < 31
        self.arguments[index] = data

    def dispatchThreadgroups_threadsPerThreadgroup_(
        self, threadgroups: tuple[int, int, int], threads: tuple[int, int, int]
    ) -> None:
        assert self.pipeline is not None
        self.commands.encoded.append(
            Encoded(self.pipeline, self.arguments, self.resources, threadgroups, threads)
        )

    def endEncoding(self) -> None:
        self.commands.is_open = False


@dataclass
class FakeCommands:
    """A command buffer: nothing runs before it is committed."""

    device: FakeDevice
    encoded: list[Encoded] = field(default_factory=list)
    is_open: bool = True
    is_committed: bool = False

    def computeCommandEncoder(self) -> FakeEncoder:
        return FakeEncoder(self)

    def commit(self) -> None:
        assert not self.is_open
        self.is_committed = True
        self.device.runs.append(self.encoded)

    def waitUntilCompleted(self) -> None:
        assert self.is_committed
        for dispatch in self.encoded:
            assert dispatch.run(), "threads of a threadgroup came to different barriers"

    def error(self) -> str | None:
        return self.device.error


@dataclass
class FakeDevice:
    """A GPU; `runs` are the dispatches of each command buffer that was committed."""

    most_threads: int = 1024
    width: int = 32
    error: str | None = None
    texts: list[str] = field(default_factory=list)
    fast_math: list[bool] = field(default_factory=list)
    runs: list[list[Encoded]] = field(default_factory=list)
    objc: FakeObjc = field(default_factory=lambda: FakeObjc())

    def name(self) -> str:
        return "a Mac's GPU"

    def newCommandQueue(self) -> FakeDevice:
        return self

    def commandBuffer(self) -> FakeCommands:
        assert self.objc.pools, "what Metal gives to whom it does not belong would live for ever"
        return FakeCommands(self)

    def newBufferWithLength_options_(self, length: int, options: int) -> FakeBuffer:
        assert length > 0
        assert options == FakeMetal.MTLResourceStorageModeShared
        return FakeBuffer(length)

    def newLibraryWithSource_options_error_(
        self, text: str, options: FakeOptions, error: None
    ) -> tuple[FakeLibrary | None, object]:
        self.texts.append(text)
        self.fast_math.append(options.fast_math)
        try:
            return FakeLibrary(compile_text(text)), None
        except CompileError as failure:
            return None, failure

    def newComputePipelineStateWithFunction_error_(
        self, function: Callable[..., bool], error: None
    ) -> tuple[FakePipeline | None, object]:
        return FakePipeline(function, self), None


class FakeObjc:
    """Stands for the module `objc` of pyobjc."""

    def __init__(self) -> None:
        self.pools = 0

    @contextmanager
    def autorelease_pool(self) -> Generator[None]:
        self.pools += 1
        yield
        self.pools -= 1


class FakeMetal(SimpleNamespace):
    """Stands for the module `Metal` of pyobjc."""

    MTLResourceStorageModeShared = 0
    MTLResourceUsageRead, MTLResourceUsageWrite = 1, 2
    MTLCompileOptions = FakeOptions

    def __init__(self, device: FakeDevice | None) -> None:
        super().__init__(device=device)

    def MTLCreateSystemDefaultDevice(self) -> FakeDevice | None:
        return self.device

    def MTLSizeMake(self, width: int, height: int, depth: int) -> tuple[int, int, int]:
        return width, height, depth


def install_metal(patch: pytest.MonkeyPatch, device: FakeDevice | None) -> None:
    """Puts a device in place of that of a Mac."""
    patch.setitem(sys.modules, "Metal", FakeMetal(device))
    patch.setitem(sys.modules, "objc", device.objc if device else FakeObjc())
