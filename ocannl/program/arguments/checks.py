"""Checks of plain arguments."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, cast

import numpy as np

from ocannl.program.arguments.errors import ArgumentError

LARGEST_FLOAT = int(np.finfo(np.float64).max)
LARGEST = 2**63 - 1
"""The greatest integer of a routine, which has 64 bits and a sign."""


def whole(value: object) -> int | None:
    """`value` as an int; None for what is not an integer, such as a truth value, or a type of integers."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def way_to_be_static(value: object) -> str:
    """How an argument of a function is an integer, where `value` is a tensor."""
    if isinstance(value, bool | int | float | str) or not hasattr(value, "ir_value"):
        return ""
    return "; an argument that Python itself has to know is named in oc.function(static=[...])"


def integer(value: object, what: str, least: int | None = 0) -> int:
    """`value` as an int; `what` names it in messages.

    Raises `ArgumentError` for what is not an integer, for less than `least`, and, unless `least` is None, for
    more than `LARGEST`.
    """
    number = whole(value)
    if number is None:
        raise ArgumentError(f"{what} is an integer, found {value!r}{way_to_be_static(value)}")
    if least is not None and number < least:
        raise ArgumentError(f"{what} is at least {least}, found {number}")
    if least is not None and number > LARGEST:
        raise ArgumentError(f"{what} is less than 2**63, found {number}")
    return number


def number(value: Any, what: str, *, signed: bool = False, below: float | None = None) -> None:
    """Raises `ArgumentError` for what is not a number, for a number that is negative or NaN, unless `signed`,
    and for one that is not less than `below`; `what` names it in messages.
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = cast("Any", value)[()]
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ArgumentError(f"{what} is a number, found {value!r}")
    if isinstance(value, int) and abs(value) > LARGEST_FLOAT:
        raise ArgumentError(f"{what} is at most 1.8e308")
    if not (signed or value >= 0):
        raise ArgumentError(f"{what} is not negative, found {value!r}")
    if below is not None and value >= below:
        raise ArgumentError(f"{what} is less than {below}, found {value!r}")


def flag(value: object, what: str) -> bool:
    """`value`, which is True or False; `what` is its name. Raises `ArgumentError` for anything else."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, np.bool_):
        raise ArgumentError(f"`{what}` is True or False, found {value!r}")
    return bool(cast("Any", value))
