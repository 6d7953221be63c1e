"""The error for many numbers where one is needed, such as a loss or a condition."""

from __future__ import annotations

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import Dim
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program import graph
from ocannl.program.location import here
from ocannl.program.values import Value, operation_of


def check_one_number(value: Value, what: str, way: str) -> None:
    """Raises `ShapeError` where a value is known to be more than one number: `what` is one, and there is a
    `way` to have one.
    """
    sizes = [dim.size for row in graph.known_shape(value) for dim in row.axes if isinstance(dim, Dim)]
    if any(size != 1 for size in sizes):
        shown = describe(operation_of(value))
        axes = ", ".join(map(str, sizes))
        raise ShapeError(here(f"{what} is one number, and `{shown}` has axes of {axes}: {way}"))


def check_loss(value: Value) -> None:
    """Raises `ShapeError` where what is to be derived is known to be more than one number."""
    check_one_number(value, "a loss", "take its mean or sum, as in loss.mean()")
