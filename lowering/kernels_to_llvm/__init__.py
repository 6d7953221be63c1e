"""Lowers kernels to LLVM IR: for a GPU, and for a CPU that emulates one."""

from ocannl.lowering.kernels_to_llvm.device import DeviceModule, kernels_to_device
from ocannl.lowering.kernels_to_llvm.emulate import Emulation
from ocannl.lowering.kernels_to_llvm.module import to_llvm
from ocannl.lowering.kernels_to_llvm.traced import TracedText, traced_llvm

__all__ = ["DeviceModule", "Emulation", "TracedText", "kernels_to_device", "to_llvm", "traced_llvm"]
