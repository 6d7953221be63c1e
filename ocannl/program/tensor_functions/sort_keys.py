"""The numbers by which the elements along an axis are ordered."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import f32, i32

from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.precisions import BOOL, is_float
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.expressions import apply, convert, positions
from ocannl.program.tensor_functions.along_axis import Along
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value


class SortKeys(NamedTuple):
    """Keys, and numbers by which those come in order that have equal keys.

    NaN has the key of what comes last, and a number above the positions of all elements.
    """

    keys: Value
    numbers: Value

    @staticmethod
    def of(along: Along, descending: bool, size: int) -> SortKeys:
        """The keys of an axis, and the positions, by which all elements differ; those of NaN plus a size."""
        element = element_now(along.value)
        if small_format(element) is not None or element == BOOL:
            element = f32 if is_float(element) else i32
        keys, numbers = convert(along.value, element), positions(Dim(along.size))
        is_nan, logic = App("ne", (Arg(0), Arg(0))), f"{along.slot}; {along.name}, => {along.slot}"
        behind = App("where", (is_nan, App("add", (Arg(1), Const(size))), Arg(1)))
        numbers = apply(behind if is_float(element) else Arg(1), [keys, numbers], logic=logic)
        if is_float(element):
            last = Const(neutral_number(last_of(descending), element))
            keys = apply(App("where", (is_nan, last, Arg(0))), [keys], logic=".")
        return SortKeys(keys, numbers)


def last_of(descending: bool) -> str:
    """The accumulation whose neutral number comes last."""
    return "max" if descending else "min"


def position_of(numbers: Value, size: int, logic: str) -> Value:
    """The positions that numbers stand for, which are those of NaN where they are not below a size."""
    number, behind = Arg(0), Const(size)
    position = App("where", (App("lt", (number, behind)), number, App("sub", (number, behind))))
    return apply(position, [numbers], logic=logic)
