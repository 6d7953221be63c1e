"""The values of a routine's static indices for which it stays inside its ranges and its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.errors import OcannlError
from ocannl.passes.analysis.dataflow.routine_facts import IndexLimit
from ocannl.program.arguments.checks import LARGEST
from ocannl.program.location import here

# The least and the greatest value that an index has in some runs.
Span: TypeAlias = tuple[int, int]


class IndexLimits:
    """The values that the indices of one routine may have.

    Attributes:
        names: the indices.
        joint: those that limit each other, so that no value of one is valid for all values of the others.
    """

    def __init__(self, ranges: Mapping[str, int | None], limits: Sequence[IndexLimit]) -> None:
        self.ranges = ranges
        self._sums = [limit for limit in limits if len(limit.terms) > 1]
        self._single = {name: self._bounds(name, limits) for name in ranges}
        self.joint = {name for limit in self._sums for name, _ in limit.terms}

    def _bounds(self, name: str, limits: Sequence[IndexLimit]) -> Span:
        size = self.ranges[name]
        found: list[Span] = [(-LARGEST, LARGEST) if size is None else (0, size - 1)]
        found += [(limit.least, limit.greatest) for limit in limits if limit.terms == ((name, 1),)]
        return max(least for least, _ in found), min(greatest for _, greatest in found)

    def surely_valid(self, name: str) -> int:
        """The integers from 0 to this are valid, whatever the other indices are; -1 if none is."""
        least, greatest = self._single[name]
        return -1 if name in self.joint or least > 0 else greatest

    def check(self, name: str, value: int) -> None:
        """Raises `OcannlError` for a value that an index cannot have, whatever the others are."""
        self._check_span(name, (value, value))

    def check_run(self, spans: Mapping[str, Span]) -> None:
        """Raises `OcannlError` unless all values in these spans stay inside the data, in all combinations."""
        for name, span in spans.items():
            self._check_span(name, span)
        for limit in self._sums:
            ends = [(c * spans[name][0], c * spans[name][1]) for name, c in limit.terms]
            least, greatest = sum(map(min, ends)), sum(map(max, ends))
            if least < limit.least or greatest > limit.greatest:
                self._refuse_sum(limit, spans)

    def _check_span(self, name: str, span: Span) -> None:
        least, greatest = self._single[name]
        for value in span:
            if not least <= value <= greatest:
                raise OcannlError(here(f"index {name}={value} is outside {self.extent(name)}"))

    def _refuse_sum(self, limit: IndexLimit, spans: Mapping[str, Span]) -> None:
        values = ", ".join(
            f"{name}={low}" if low == high else f"{name}={low}..{high}"
            for name, (low, high) in ((name, spans[name]) for name, _ in limit.terms)
        )
        what = f"the data that it selects from, {limit.least}..{limit.greatest}"
        raise OcannlError(here(f"with {values} the index {Linear(limit.terms)} is outside {what}"))

    def extent(self, name: str) -> str:
        """The values that an index can have, in words."""
        (least, greatest), size = self._single[name], self.ranges[name]
        if least > greatest:
            return "the data that it selects from, which has no element for it"
        if (least, greatest) == (-LARGEST, LARGEST):
            return "the integers of 64 bits"
        what = "its range" if (least, greatest) == (0, (size or 0) - 1) else "the data that it selects from"
        return f"{what}, {least}..{'' if greatest == LARGEST else greatest}"
