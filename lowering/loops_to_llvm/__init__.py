"""Lowers the `loops` dialect to LLVM IR text."""

from ocannl.lowering.loops_to_llvm.module import EntryLayout, entry_layout, loops_to_llvm

__all__ = ["EntryLayout", "entry_layout", "loops_to_llvm"]
