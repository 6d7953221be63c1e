"""Checks of what blocks and losses are given."""

from __future__ import annotations

import ocannl as oc
from ocannl.program.arguments.checks import number
from ocannl.program.location import here


def check_not_negative(value: oc.TensorLike, what: str) -> None:
    """Raises `ArgumentError` for a negative number, NaN, and what is not a number; `what` is its name. The
    value of a tensor is known only when the program runs, so that it is not checked.
    """
    if not isinstance(value, oc.Tensor):
        number(value, what)


def check_positive(value: oc.TensorLike, what: str) -> None:
    """The same, and for 0."""
    check_not_negative(value, what)
    if not isinstance(value, oc.Tensor) and value == 0:
        raise oc.ArgumentError(f"{what} is more than 0, found {value!r}")


def check_share(value: float, what: str) -> None:
    """Raises `ArgumentError` for what is not a number from 0 to 1."""
    number(value, what)
    if value > 1:
        raise oc.ArgumentError(f"{what} is at most 1, found {value!r}")


def check_outputs(x: oc.TensorLike, of: str) -> None:
    """Raises `ShapeError` for a tensor that is known to have no output axes; `of` is the block of `nn`."""
    if isinstance(x, oc.Tensor) and x.shape.output == ():
        raise oc.ShapeError(here(f"nn.{of} is over the output axes, and {x!r} has none"))
