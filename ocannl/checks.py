"""Checks of plain arguments."""

from __future__ import annotations

import operator
from typing import SupportsIndex


def integer(value: object, what: str, least: int | None = 0) -> int:
    """`value` as an int. Raises TypeError for what is no integer, ValueError for less than `least`."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{what} is an integer, found {value!r}")
    number = operator.index(value)
    if least is not None and number < least:
        raise ValueError(f"{what} is at least {least}, found {number}")
    return number
