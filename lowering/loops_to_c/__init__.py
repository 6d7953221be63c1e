"""Writes the `loops` dialect as C, for reading and to compile elsewhere."""

from ocannl.lowering.loops_to_c.module import to_c

__all__ = ["to_c"]
