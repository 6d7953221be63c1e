"""Lowers kernels to LLVM IR: for a GPU, and for a CPU that emulates one."""

from ocannl.lowering.kernels_to_llvm.device import DeviceModule, kernels_to_device
from ocannl.lowering.kernels_to_llvm.emulate import Emulation
from ocannl.lowering.kernels_to_llvm.module import to_llvm, to_llvm_with_steps

__all__ = ["DeviceModule", "Emulation", "kernels_to_device", "to_llvm", "to_llvm_with_steps"]
