"""The backends: the pipeline and the device of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.cuda import CudaDevice
from ocannl.runtime.device import Device
from ocannl.runtime.host.processor import chosen_target
from ocannl.runtime.metal import MetalDevice
from ocannl.runtime.settings import is_on

BACKENDS: dict[str, tuple[str, Callable[[], Device]]] = {
    "cuda": ("gpu", CudaDevice),
    "metal": ("metal", MetalDevice),
    "cpu": ("cpu", lambda: cpu_device(None, None)),
    "emulated_gpu": ("gpu", NativeDevice),
}
GPUS = ("cuda", "metal")


def cpu_device(target: str | None, winograd: bool | None) -> NativeDevice:
    """This CPU, with code for a processor by its name, which checks accesses if `OCANNL_CHECK=1` says so.
    Raises `DeviceError` for an unknown name.
    """
    checks, described = is_on("check"), chosen_target(target)
    if winograd is not None:
        described = replace(described, winograd=winograd)
    return NativeDevice(Emulation(check=checks), target=described)
