"""Every operator of the scalar table as a function of tensors."""

from __future__ import annotations

from typing import Protocol

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.tensor import Tensor, TensorLike, pointwise

# Where a table's name is a word of Python or hides a builtin of another meaning.
PUBLIC_NAMES = {
    "max": "maximum",
    "min": "minimum",
    "or": "logical_or",
    "and": "logical_and",
    "not": "logical_not",
}


class Operator(Protocol):
    """A pointwise function of one to three tensors or numbers."""

    def __call__(self, *args: TensorLike) -> Tensor: ...


def _operator(op: str, name: str) -> Operator:
    def function(*args: TensorLike) -> Tensor:
        return pointwise(op, *args)

    function.__name__ = function.__qualname__ = name
    operands = ", ".join("abc"[: SCALAR_OPS[op].arity])
    function.__doc__ = f"`{name}({operands})` at every point of the broadcast operands."
    return function


OPERATORS: dict[str, Operator] = {
    PUBLIC_NAMES.get(op, op): _operator(op, PUBLIC_NAMES.get(op, op)) for op in SCALAR_OPS
}
