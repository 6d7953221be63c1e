"""Tensors in other element types."""

from __future__ import annotations

from numpy.typing import DTypeLike
from xdsl.ir import Attribute

from ocannl.program import expressions
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.types.dtypes import ELEMENTS, stored_dtype
from ocannl.program.types.floats import float_value


def convert(
    x: TensorLike, element: Attribute, *, compute: bool = False, factors: Attribute | None = None
) -> Tensor:
    """The value in an element type, of the same shape; with `compute`, as products of it are computed, from
    factors that are rounded to `factors`.
    """
    value = as_tensor(x).ir_value
    converted = expressions.convert(value, element, compute=compute, factors=factors)
    return Tensor(keep_all_axes(converted, value))


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """The value in a dtype; the shape is kept.

    To floats, rounded to nearest, ties to even; overflow gives infinity, or NaN in a dtype without infinity.
    From floats to integers, towards zero; NaN gives 0, and what is out of range the nearest integer. Between
    integers, modulo 2**n. To truth values, whether it is not 0. The gradient between floats is converted
    back; integers have none. Raises `PrecisionError` for a dtype that no target stores.
    """
    return convert(x, ELEMENTS[stored_dtype(dtype)])


def floats(tensor: TensorLike) -> Tensor:
    """A tensor, integers as floats: before sums and squares, which could wrap around."""
    return Tensor(float_value(as_tensor(tensor).ir_value))
