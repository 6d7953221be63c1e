"""Every operator of the scalar table as a function of tensors, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ocannl.dialects.errors import SpecError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.tensor import Tensor, TensorLike, pointwise

PUBLIC_NAMES = {
    "max": "maximum",
    "min": "minimum",
    "or": "logical_or",
    "and": "logical_and",
    "not": "logical_not",
    "round": "round",
    "abs": "abs",
    "pow": "pow",
}


def _operator(op: str, name: str) -> Callable[..., Tensor]:
    arity = SCALAR_OPS[op].arity

    def function(*args: TensorLike) -> Tensor:
        return pointwise(op, *args)

    function.__name__ = function.__qualname__ = name
    operands = "abc"[:arity]
    function.__doc__ = f"`{op}({', '.join(operands)})` at every point of the broadcast operands."
    return function


OPERATORS: dict[str, Callable[..., Tensor]] = {
    PUBLIC_NAMES.get(op, op): _operator(op, PUBLIC_NAMES.get(op, op)) for op in SCALAR_OPS
}
