"""Parameters of other frameworks."""

from ocannl.interop.torch import from_torch, to_torch
from ocannl.program.mistakes.misuse import explain_all

__all__ = ["from_torch", "to_torch"]

explain_all(__all__, globals())
