"""A check that both branches of a condition give the same shapes and dtypes, as far as these are known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ocannl.dialects.ir.errors import OcannlError, PrecisionError, ShapeError
from ocannl.program.location import here
from ocannl.program.types.dtypes import dtype_of
from ocannl.program.types.final_types import determined_shape, element_now
from ocannl.program.values import Value

WAY = "oc.where(condition, a, b) broadcasts its values, and oc.cond does not"


def check_branches(first: Sequence[Value | None], other: Sequence[Value | None]) -> None:
    """Raises `ShapeError` or `PrecisionError` where values of two branches differ. None stands for a number,
    which takes what the other branch has.
    """
    for number, (one, two) in enumerate(zip(first, other, strict=True)):
        if one is None or two is None:
            continue
        place = f" as result {number}" if len(first) > 1 else ""
        shapes, types = _shapes(one, two), _types(one, two)
        if len(set(shapes)) > 1:
            raise ShapeError(here(f"{_said(shapes, place)}\n  hint: {WAY}"))
        if len(set(types)) > 1:
            raise PrecisionError(here(f"{_said(types, place)}\n  hint: give both one dtype, by .astype"))


def _shapes(*values: Value) -> list[str]:
    """The shapes of values, if all are determined."""
    with suppress(OcannlError):
        return [str(determined_shape(value)) or "()" for value in values]
    return []


def _types(*values: Value) -> list[str]:
    with suppress(OcannlError):
        return [str(dtype_of(element_now(value))) for value in values]
    return []


def _said(kinds: Sequence[str], place: str) -> str:
    first, other = kinds
    return f"both branches of a condition give the same, and f gives {first}{place}, g gives {other}"
