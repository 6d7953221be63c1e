"""PTX, the virtual assembly of NVIDIA GPUs, by LLVM's code generator."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.kernels.description import description_text
from ocannl.lowering.kernels_to_llvm.device import TRIPLE, DeviceModule, kernels_to_device
from ocannl.runtime.code_generation import all_passes
from ocannl.runtime.cuda.older_llvm import LATER, for_older_llvm
from ocannl.runtime.cuda.ptxas import Resources, assemble
from ocannl.runtime.llvm_parser import parse_llvm

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

DEFAULT_ARCH = "sm_80"
# Addresses of shared memory have 32 bits: the loop of a product of halves has a tenth fewer instructions.
SHORT_POINTERS = "--nvptx-short-ptr"
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")


def ptx_text(module: ModuleOp, arch: str = DEFAULT_ARCH, *, lines: bool = False) -> str:
    """The PTX of the kernels of a module, for GPUs of an architecture. With `lines`, instructions have those
    of the user's program, which `ptxas -lineinfo` keeps.

    Raises `DeviceError` for an architecture that is not one of `ARCHS`, and `OcannlError` for what is no
    kernel yet.
    """
    return assembly(kernels_to_device(module, arch, lines=lines), arch)


def assembly(device: DeviceModule, arch: str = DEFAULT_ARCH) -> str:
    """The PTX of kernels, and the description of them for their host.

    Raises `DeviceError` for an architecture that is not one of `ARCHS`.
    """
    check_arch(arch)
    machine = _machine(arch)
    is_older = llvm.llvm_version_info < LATER
    parsed = parse_llvm(for_older_llvm(device.text) if is_older else device.text)
    parsed.data_layout = str(machine.target_data)
    with all_passes(are_on=True):
        text = machine.emit_assembly(parsed)
    return f"{text}\n{description_text(device.routines)}"


def check_arch(arch: str) -> None:
    """Raises `DeviceError` for an architecture that is not one of `ARCHS`."""
    if arch not in ARCHS:
        raise DeviceError(f"there is no GPU architecture {arch!r}; known are {', '.join(ARCHS)}")


def kernel_resources(module: ModuleOp, arch: str = DEFAULT_ARCH) -> list[Resources]:
    """The resources of each kernel of a module, in the order in which they run. Raises `DeviceError`."""
    device = kernels_to_device(module, arch)
    found = assemble(assembly(device, arch), arch)
    return [found[kernel.function] for routine in device.routines for kernel in routine.kernels]


@cache
def _target() -> Any:
    llvm.set_option("ocannl", SHORT_POINTERS)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


@cache
def _machine(arch: str) -> Any:
    return _target().create_target_machine(cpu=arch, opt=3)
