"""Lowers the `loops` dialect to LLVM IR text."""

from ocannl.lowering.loops_to_llvm.calls import TICKS
from ocannl.lowering.loops_to_llvm.module import loops_to_llvm

__all__ = ["TICKS", "loops_to_llvm"]
