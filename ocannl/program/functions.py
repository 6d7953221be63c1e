"""Every operator of the scalar table as a function of tensors."""

from __future__ import annotations

from typing import Protocol

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise

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


def clip(x: TensorLike, low: TensorLike | None = None, high: TensorLike | None = None) -> Tensor:
    """`x` at least `low` and then at most `high`, either of which may be left out. The gradient goes to `x`
    inside and at the bounds, else to the bound.
    """
    above = as_tensor(x) if low is None else pointwise("max", x, low)
    return above if high is None else pointwise("min", above, high)


OPERATORS: dict[str, Operator] = {
    PUBLIC_NAMES.get(op, op): _operator(op, PUBLIC_NAMES.get(op, op)) for op in SCALAR_OPS
}
