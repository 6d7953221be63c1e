"""Checks that a scan's tensors have the shapes of what its body sees and yields."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.shapes.shape import Dim, DimTerm
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.tensor_type import shape_of


def check_same(value: SSAValue, other: SSAValue, what: str) -> None:
    one, two = shape_of(value), shape_of(other)
    if one.is_final and two.is_final and one.memory_sizes != two.memory_sizes:
        raise VerifyException(f"{what} has one shape, found {one} and {two}")


def check_along(whole: SSAValue, part: SSAValue, axis: Axis, count: DimTerm) -> None:
    """Checks that a tensor is a stack of parts along an axis."""
    shape, inner = shape_of(whole), shape_of(part)
    if not (shape.is_final and inner.is_final and isinstance(count, Dim)):
        return
    sizes = list(shape.memory_sizes)
    own = len(shape.row(axis.row).axes)
    if not -own <= axis.number < own or sizes.pop(axis.in_memory(shape)) != count.size:
        raise VerifyException(f"{shape} has no axis {axis} of {count} positions")
    if tuple(sizes) != inner.memory_sizes:
        raise VerifyException(f"a position of {shape} along {axis} has no shape {inner}")
