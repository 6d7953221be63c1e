"""Integers as floats, where what is computed from them is none: sums and squares of integers wrap around."""

from __future__ import annotations

from ocannl.dialects.scalar.precisions import BOOL, is_float
from ocannl.program.expressions import pointwise
from ocannl.program.types.kinds import kind_of
from ocannl.program.values import Value


def float_value(value: Value) -> Value:
    """A value, or one of integers divided by 1: f32, or f64 of int64. Truth values, whose sums are int32,
    and whole numbers of the program, which are floats beside floats, stay.
    """
    return pointwise("div", [value, 1]) if is_integer(value) else value


def is_integer(value: Value) -> bool:
    """Whether a value is of integers that are no truth values."""
    kind = kind_of(value)
    return kind is not None and not is_float(kind) and kind != BOOL
