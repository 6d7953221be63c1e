"""The error, or the warning, about many numbers where one is needed, such as a loss or a condition."""

from __future__ import annotations

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import Dim
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program import graph
from ocannl.program.location import here, user_location, warn_at
from ocannl.program.values import Value, operation_of


def check_one_number(value: Value, what: str, way: str) -> None:
    """Raises `ShapeError` where a value is known to be more than one number: `what` is one, and there is a
    `way` to have one.
    """
    if found := _many(value):
        raise ShapeError(here(f"{what} is one number, and {found}: {way}"))


def check_loss(value: Value) -> None:
    """Raises `ShapeError` where what is to be derived is known to be more than one number."""
    check_one_number(value, "a loss", "take its mean or sum, as in loss.mean()")


def warn_of_sum(value: Value) -> None:
    """Warns where what is derived is known to be more than one number: gradients are those of their sum."""
    if found := _many(value):
        warn_at(user_location(), f"{found}: gradients are those of their sum; loss.sum() says so")


def _many(value: Value) -> str | None:
    """Which axes of a value are known to have more than one number, in words."""
    sizes = [dim.size for row in graph.known_shape(value) for dim in row.axes if isinstance(dim, Dim)]
    if all(size == 1 for size in sizes):
        return None
    return f"`{describe(operation_of(value))}` has axes of {', '.join(map(str, sizes))}"
