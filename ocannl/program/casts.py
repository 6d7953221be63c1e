"""Tensors in another element type."""

from __future__ import annotations

from numpy.typing import DTypeLike
from xdsl.ir import Attribute

from ocannl.program import expressions
from ocannl.program.dtypes import float_element
from ocannl.program.tensor import Tensor, TensorLike, as_tensor


def convert(x: TensorLike, element: Attribute) -> Tensor:
    """The value in an element type, of the same shape."""
    return Tensor(expressions.convert(as_tensor(x).ir_value, element))


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The value in a floating dtype, rounded to nearest, ties to even; the shape is kept.

    Overflow gives infinity, or NaN in a dtype without infinity. The gradient is converted back. Raises
    `PrecisionError` for a dtype that no target stores, and for integers.
    """
    return convert(x, float_element(dtype, "a cast is to a value"))
