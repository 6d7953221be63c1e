"""The backends: the pipeline and the device of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.cuda import CudaDevice
from ocannl.runtime.cuda.absent import AbsentGpu
from ocannl.runtime.cuda.ptx import check_arch
from ocannl.runtime.device import Device
from ocannl.runtime.host.processor import chosen_target
from ocannl.runtime.metal import MetalDevice
from ocannl.runtime.settings import is_on

BACKENDS: dict[str, tuple[str, Callable[[], Device]]] = {
    "cuda": ("gpu", CudaDevice),
    "metal": ("metal", MetalDevice),
    "cpu": ("cpu", lambda: cpu_device(None, None)),
    "emulated_gpu": ("gpu", lambda: emulator(Emulation())),
}
GPUS = ("cuda", "metal")
# The code of an emulation is long and runs a few times: it has to be there soon.
EMULATED_LEVEL = 0


def cuda_device(number: int | None, arch: str | None) -> CudaDevice | AbsentGpu:
    """An NVIDIA GPU, by default the first one; with an architecture that it does not run, or where there is
    none, one that code is only compiled for. Raises `DeviceError`.
    """
    if arch is not None:
        check_arch(arch)
    try:
        return CudaDevice(number or 0, arch)
    except DeviceError as error:
        if arch is None or number is not None:
            raise
        return AbsentGpu(arch, str(error))


def emulator(emulation: Emulation) -> NativeDevice:
    """This CPU in place of a GPU."""
    return NativeDevice(emulation, opt_level=EMULATED_LEVEL)


def cpu_device(target: str | None, winograd: bool | None) -> NativeDevice:
    """This CPU, with code for a processor by its name, which checks accesses if `OCANNL_CHECK=1` says so.
    Raises `DeviceError` for an unknown name.
    """
    checks, described = is_on("check"), chosen_target(target)
    if winograd is not None:
        described = replace(described, winograd=winograd)
    return NativeDevice(Emulation(check=checks), target=described)
