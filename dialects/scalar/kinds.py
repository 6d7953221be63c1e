"""On which numbers operators work, and which they give."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """How the type of an operator's result follows from those of its operands."""

    CHOICE = "one of the operands, in their common type"
    ARITHMETIC = "a number of the operands' common type; truth values count as i32"
    FLOAT = "a float; integers are converted"
    TEST = "a truth value about a float; integers are converted"
    COMPARISON = "a truth value about numbers of a common type"
    LOGIC = "a truth value about truth values; of numbers, whether they are not 0"
    BITS = "integers or truth values of the operands' common type"
    SHIFT = "integers of the operands' common type; truth values count as i32"


TRUTHS = (Kind.TEST, Kind.COMPARISON, Kind.LOGIC)
"""Operators that give truth values."""
KEEPS_TRUTHS = (Kind.CHOICE, Kind.BITS)
"""Operators that give truth values where all operands are such."""
WHOLE = (Kind.BITS, Kind.SHIFT)
"""Operators that floats have not."""
