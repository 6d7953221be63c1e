"""The first few elements in order along one axis, one after the other."""

from __future__ import annotations

from math import inf

from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.program.expressions import apply, spec_apply
from ocannl.program.tensor_functions.along_axis import Along
from ocannl.program.tensor_functions.sort_keys import SortKeys, last_of, position_of
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value


def selected(along: Along, count: int, descending: bool) -> Value:
    """The positions of the first `count` elements in order."""
    left = along.slot.with_axes({along.name: ()})
    all_keys = SortKeys.of(along, descending, along.size)
    found = [_first(along, all_keys, descending)]
    while len(found) < count:
        found.append(_behind(along, all_keys, found[-1], descending))
    places = [position_of(each.numbers, along.size, f"{left} => {along.with_axis('0')}") for each in found]
    parts = [f"p{place}" for place in range(count)]
    operands = "; ".join(str(along.with_axis(part)) for part in parts)
    spec = f"{operands} => {along.with_axis('^'.join(parts))}"
    return spec_apply(spec, "add", "add", places, [])


def _first(along: Along, all_keys: SortKeys, descending: bool) -> SortKeys:
    """The first key, and the least number that has it."""
    own, left = along.slot, along.slot.with_axes({along.name: ()})
    key = apply(Arg(0), [all_keys.keys], logic=f"{own} => {left}", accum=last_of(descending))
    number = App("where", (App("eq", (Arg(0), Arg(2))), Arg(1), Const(inf)))
    return SortKeys(
        key, apply(number, [*all_keys, key], logic=f"{own}; {own}; {left} => {left}", accum="min")
    )


def _behind(along: Along, all_keys: SortKeys, before: SortKeys, descending: bool) -> SortKeys:
    """The first key behind another element, and the least number behind it that has this key."""
    own, left, accum = along.slot, along.slot.with_axes({along.name: ()}), last_of(descending)
    key, number, key_before, number_before = map(Arg, range(4))
    is_later = App("and", (App("eq", (key, key_before)), App("lt", (number_before, number))))
    order = (key, key_before) if descending else (key_before, key)
    is_behind: Term = App("or", (App("lt", order), is_later))
    last = Const(neutral_number(accum, element_now(all_keys.keys)))
    slots = f"{own}; {own}; {left}; {left}"
    found = apply(
        App("where", (is_behind, key, last)), [*all_keys, *before], logic=f"{slots} => {left}", accum=accum
    )
    above = App("where", (App("eq", (key_before, Arg(4))), number_before, Const(-1)))
    has_key = App("and", (App("eq", (key, Arg(4))), App("lt", (above, number))))
    least = App("where", (has_key, number, Const(inf)))
    operands = [*all_keys, *before, found]
    return SortKeys(found, apply(least, operands, logic=f"{slots}; {left} => {left}", accum="min"))
