"""Bounds of index expressions, which exclude the points of a space in excess of what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.linear import Linear, Map, clashing_variables, parse_linear
from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """`index < below`; an index below a bound is not negative."""

    index: Linear
    below: int

    def __str__(self) -> str:
        return f"{self.index} < {self.below}"


@irdl_attr_definition
class BoundsAttr(Data[tuple[Bound, ...]]):
    """Bounds that all hold: `<16*b + t < 100, k < 3>`."""

    name = "kernel.bounds"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Bound, ...]:
        with parser.in_angle_brackets():
            return parse_bounds(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{bounds_text(self.data)}>")


def bounds_text(bounds: Sequence[Bound]) -> str:
    return ", ".join(map(str, bounds))


def parse_bounds(parser: AttrParser) -> tuple[Bound, ...]:
    def bound() -> Bound:
        index = parse_linear(parser)
        parser.parse_punctuation("<")
        return Bound(index, parser.parse_integer(allow_boolean=False, allow_negative=False))

    found = [bound()]
    while parser.parse_optional_punctuation(","):
        found.append(bound())
    return tuple(found)


def collapsed(index: Linear, bounds: Iterable[Bound]) -> tuple[Linear, dict[str, int]]:
    """The index with each bounded subexpression replaced by a new variable, and the sizes of these variables.

    A new variable is named by the text of its expression, which no variable of a program has.
    """
    sizes: dict[str, int] = {}
    for bound in map(unshifted, bounds):
        factor = _factor(index, bound.index)
        if factor:
            name = str(bound.index)
            index = index + bound.index * -factor + Linear(((name, factor),))
            sizes[name] = min(bound.below, sizes.get(name, bound.below))
    return index, sizes


def unshifted(bound: Bound) -> Bound:
    """The same bound without a constant in its index, where the rest of that is not negative."""
    index = bound.index
    if index.constant <= 0 or any(coefficient < 0 for _, coefficient in index.terms):
        return bound
    return Bound(Linear(index.terms), max(bound.below - index.constant, 1))


def _factor(index: Linear, part: Linear) -> int:
    """The factor of `part` in an index that contains a multiple of all its terms; 0 if it contains none."""
    if not part.terms or part.constant:
        return 0
    name, coefficient = part.terms[0]
    factor, rest = divmod(index.coefficient(name), coefficient)
    whole = rest == 0 and all(index.coefficient(n) == factor * c for n, c in part.terms)
    return factor if whole else 0


def extremes_within(
    index: Linear, sizes: Mapping[str, int], bounds: Iterable[Bound]
) -> tuple[int, int] | None:
    """Least and greatest value of an index where the bounds hold; None where a size is unknown."""
    index, own = collapsed(index, bounds)
    return index.extremes({**sizes, **own})


def clashing_within(indices: Map, sizes: Mapping[str, int], bounds: Sequence[Bound]) -> set[str]:
    """The variables in which two points inside the bounds may differ and still reach the same element."""
    space = dict(sizes)
    for bound in bounds:
        name = bound.index.variable
        if name in space:
            space[name] = min(bound.below, space[name])
    whole: list[Linear] = []
    for index in indices:
        index, own = collapsed(index, bounds)
        whole.append(index)
        space |= own
    clashing = clashing_variables(tuple(whole), space)
    known = [b.index for b in map(unshifted, bounds) if str(b.index) in space.keys() - clashing]
    return clashing_variables((*known, *whole), space) & sizes.keys()


def check_bounds(bounds: Sequence[Bound], sizes: Mapping[str, int]) -> None:
    """Raises `VerifyException` for a bounded index that may be negative."""
    for bound in bounds:
        extremes = bound.index.extremes(sizes)
        if extremes is not None and extremes[0] < 0:
            raise VerifyException(f"`{bound.index}` may be negative, and has an upper bound only")
