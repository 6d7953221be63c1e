"""Code that keeps in memory what a loop of runs records."""

from __future__ import annotations

from ocannl.program.code import Code, computing
from ocannl.program.module.needed import needed
from ocannl.program.tensor import Tensor


def with_values(code: Code, tensors: frozenset[Tensor]) -> Code:
    """Code that keeps those of `tensors` that it computes, and computes the others after that."""
    computed = set(needed(code.statements))
    for tensor in sorted(tensors, key=lambda t: t.label):
        if tensor.op in computed:
            _ = tensor.value
        else:
            code = code + computing(tensor.ir_value)
    return code
