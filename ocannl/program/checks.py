"""Checks of plain arguments."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from ocannl.program.errors import ArgumentError

LARGEST = 2**63 - 1
"""The greatest number that a routine can count to."""


def integer(value: object, what: str, least: int | None = 0) -> int:
    """`value` as an int. Raises `ArgumentError` for what is no integer, for less than `least`, and for a
    size or count, which has a least value, that is too large for 64 bits.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise ArgumentError(f"{what} is an integer, found {value!r}")
    number = operator.index(value)
    if least is not None and number < least:
        raise ArgumentError(f"{what} is at least {least}, found {number}")
    if least is not None and number > LARGEST:
        raise ArgumentError(f"{what} is less than 2**63, found {number}")
    return number
