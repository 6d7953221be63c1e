"""The columns of the table of targets: what programs run on, and what stands in for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import pytest
from support import arm_on_cpu
from support.arm_on_cpu import arm_context
from support.c_on_cpu import CC, c_compiler, c_context
from support.cuda_on_cpu import FakeDriver, install
from support.metal_on_cpu import COMPILER, FakeDevice, install_metal
from support.ptx.memory import Counts

import ocannl as oc
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.cuda.ptxas import find_ptxas
from ocannl.runtime.host.processor import host, missing_features

DType: TypeAlias = type[np.floating[Any]]

ARM = "aarch64"
SPOILED = "cannot use the GPU any more"


@contextmanager
def noted() -> Generator[list[oc.Routine]]:
    """The routines that any context compiles, of code and of expressions that are looked at."""
    routines: list[oc.Routine] = []
    make = oc.Routine.__init__

    def note(routine: oc.Routine, *args: Any, **named: Any) -> None:
        make(routine, *args, **named)
        routines.append(routine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oc.Routine, "__init__", note)
        yield routines


def check_resources(routine: oc.Routine, dtype: DType) -> None:
    """ptxas takes the kernels, and the schedule says what each has. Nothing is spilled, but perhaps around
    divisions in f64, which are calls, and no contractions.
    """
    table = routine.assemble()
    assert table == routine.schedule()
    head, *rows = table.splitlines()
    assert head.endswith("shared bytes  registers a thread  spilled bytes")
    for row in (row for row in rows if "@" not in row):  # those of loops have no kernel
        shared, registers, spilled = map(int, row.split()[-3:])
        assert 0 < registers <= 255, row
        assert spilled == 0 or (dtype == np.float64 and not shared), row


@contextmanager
def nothing() -> Generator[None]:
    yield


@contextmanager
def driver(capability: tuple[int, int], interprets: bool = False) -> Generator[None]:
    """A stand-in for the driver of an NVIDIA GPU, which emulates kernels, or interprets their PTX."""
    with pytest.MonkeyPatch.context() as patch:
        found = FakeDriver()
        found.capability, found.counts = capability, Counts() if interprets else None
        install(patch, found)
        yield


@contextmanager
def mac() -> Generator[None]:
    """A stand-in for the framework of a Mac."""
    with pytest.MonkeyPatch.context() as patch:
        install_metal(patch, FakeDevice())
        patch.setenv("OCANNL_CACHE", "off")
        yield


@contextmanager
def gpu() -> Generator[None]:
    """A GPU that is there. A process for which a kernel spoils it is of no use to later tests, and ends."""
    try:
        yield
    except oc.DeviceError as error:
        if SPOILED in str(error):
            print(error, file=sys.__stderr__, flush=True)
            os._exit(1)
        raise


@cache
def no_gpu() -> str:
    """Why no NVIDIA GPU can be had; empty where there is one."""
    try:
        oc.Context.cuda()
    except oc.DeviceError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Column:
    """A target.

    Attributes:
        context: makes a context on it.
        around: what stands in for the hardware.
        dtype: the type of numbers.
        assembles: whether ptxas is to take its kernels.
        processor: what the machine has to be, for native code.
        reference: the target whose bits it gives; without one it is close to the CPU.
        rounding: by how much products may differ, in terms of the greatest number.
    """

    context: Callable[[], oc.Context]
    around: Callable[[], Any] = nothing
    dtype: DType = np.float32
    assembles: bool = False
    reference: str | None = None
    rounding: float = 0
    processor: str | None = None

    @contextmanager
    def running(self) -> Generator[oc.Context]:
        """A context, on which all runs; its kernels are assembled afterwards."""
        if self.lacks:
            pytest.skip(self.lacks)
        with self.around(), noted() as routines:
            ctx = self.context()
            yield ctx
            assert {routine.context for routine in routines} == {ctx}
            for routine in routines if self.assembles else ():
                check_resources(routine, self.dtype)

    @property
    def lacks(self) -> str | None:
        """The tools that have to be installed first."""
        if self.assembles and find_ptxas() is None:
            return "there is no ptxas: install nvidia-cuda-nvcc"
        if self.around is mac and COMPILER is None:
            return "there is no C++ compiler: install clang or g++"
        if self.around is c_compiler and CC is None:
            return "there is no C compiler: install gcc or clang"
        if self.around is gpu and (why := no_gpu()):
            return f"there is no NVIDIA GPU: {why}"
        if self.processor and (missing := missing_features(processor(self.processor))):
            return arm_on_cpu.LACKS if missing == [ARM] else f"this processor has no {', '.join(missing)}"
        return None


def on_processor(name: str) -> Column:
    """Native code for a processor, which this one may be; code for AArch64 is emulated elsewhere."""
    emulated = processor(name).arch == ARM != host().arch
    context = partial(arm_context, name) if emulated else partial(oc.Context.cpu, 1, target=name)
    return Column(context, processor=name)


AMPERE, HOPPER = partial(driver, (8, 0)), partial(driver, (9, 0))
COLUMNS = {
    "emulated": Column(oc.Context.emulated_gpu),
    "shuffled": Column(lambda: oc.Context.emulated_gpu(shuffle=5), reference="emulated"),
    "checked": Column(lambda: oc.Context.emulated_gpu(check=True, shuffle=3), reference="emulated"),
    "checked f64": Column(lambda: oc.Context.emulated_gpu(check=True), dtype=np.float64),
    "sm_80": Column(oc.Context.cuda, AMPERE, assembles=True, reference="emulated"),
    "sm_90": Column(oc.Context.cuda, HOPPER, assembles=True, reference="emulated"),
    "sm_90 f64": Column(oc.Context.cuda, HOPPER, np.float64, assembles=True),
    "tf32": Column(lambda: oc.Context.emulated_gpu(check=True, shuffle=2, tf32=True), rounding=3e-3),
    "sm_90 tf32": Column(lambda: oc.Context.cuda(tf32=True), HOPPER, assembles=True, reference="tf32"),
    "ptx": Column(oc.Context.cuda, partial(driver, (8, 0), True)),
    "ptx f64": Column(oc.Context.cuda, partial(driver, (9, 0), True), np.float64),
    "gpu": Column(oc.Context.cuda, gpu),
    "gpu f64": Column(oc.Context.cuda, gpu, np.float64),
    "gpu tf32": Column(lambda: oc.Context.cuda(tf32=True), gpu, rounding=3e-3),
    "metal": Column(oc.Context.metal, mac),
    "c": Column(c_context, c_compiler),
    "c f64": Column(c_context, c_compiler, np.float64),
}
PROCESSORS = {
    "neon": on_processor("neoverse-n1"),
    "neon bf16": on_processor("neoverse-v1"),
    "sse2": on_processor("x86-64"),
    "sse4.2": on_processor("x86-64-v2"),
    "avx2": on_processor("x86-64-v3"),
    "avx-512": on_processor("x86-64-v4"),
}
COLUMNS.update(PROCESSORS)
COLUMNS.update((f"{name} f64", replace(column, dtype=np.float64)) for name, column in PROCESSORS.items())
