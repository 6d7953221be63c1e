"""Legality and profitability of fusion by rows: nests that run block by block over variables that they share.

A row is a variable that several nests share, such that at one value of it each nest touches its own part of
every node that one of them writes. So all nests may run for one row, or a block of rows, before the next
ones: producer-consumer fusion by tiles, as of Halide's `compute_at` (Ragan-Kelley et al., 2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field

from xdsl.ir import SSAValue

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.footprints import AccessFootprint, NestFootprint
from ocannl.passes.analysis.costs.tile_cost import FAR, FARTHEST, SHARED
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.targets.target import TargetDescription

# Points of a nest that make up for its start; blocks of rows grow to these while they stay in the cache.
POINTS_OF_A_BLOCK, POINTS_OF_A_CONTRACTION = 2048, 2**15
# The rows that a sum over them reads side by side, to load and store its partial results less often.
SUMMED_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Member:
    """A nest of a chain, with its variable for each row."""

    view: NestFootprint
    variables: Mapping[str, str]

    def extents(self, blocks: Mapping[str, int]) -> dict[str, int]:
        """The extents of its variables in a block of rows."""
        own = {variable: blocks[row] for row, variable in self.variables.items() if row in blocks}
        return {**self.view.sizes, **own}

    def touched(self, blocks: Mapping[str, int], spanned: bool) -> dict[SSAValue, int]:
        """The bytes of each node that the nest touches in a block of rows; `spanned` counts gaps inside cache
        lines.
        """
        extents = self.extents(blocks)
        return {
            node: max(place.span(extents) if spanned else place.size(extents) for place in places)
            for node, places in self.view.places.items()
        }

    def sums_along(self, rows: Iterable[str]) -> bool:
        """Whether the reduction of the nest runs over one of the rows."""
        summed = self.view.summed
        return summed is not None and any(self.variables[row] in summed.space.names for row in rows)

    def added_up(self, blocks: Mapping[str, int], near: int) -> float:
        """The cycles that it takes to add the partial sums of a block of rows, the outermost first, to the
        totals; those of a sum that is no contraction count where the totals between two blocks of the same
        ones, with what is rounded off, take more than so many bytes.
        """
        if not self.sums_along(blocks):
            return 0.0
        summed = next(place for place, row in enumerate(blocks) if self.sums_along((row,)))
        between = self.extents(dict(list(blocks.items())[:summed]))
        extents, least = self.extents(blocks), 0 if self.view.is_contraction else near // 2
        totals = [place for node in self.view.written for place in self.view.places[node]]
        return sum(FAR * place.size(extents) / LINE for place in totals if place.size(between) > least)


@dataclass
class NestChain:
    """Nests that can run row by row together: `rows` with their sizes, and the axes of nodes along them."""

    members: list[Member]
    rows: dict[str, int]
    axes: dict[SSAValue, dict[int, str]]
    written: set[SSAValue]
    touched: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    @staticmethod
    def of(view: NestFootprint) -> NestChain:
        variables = {name: name for name in view.sizes if name in view.free}
        axes = {node: _row_axes(places, variables) for node, places in view.places.items()}
        rows = {name: view.sizes[name] for name in variables}
        return NestChain([Member(view, variables)], rows, axes, set(view.written), dict.fromkeys(axes, 1))

    def join(self, view: NestFootprint, before: int = 0) -> NestChain | None:
        """The chain with one more nest, inserted so many places before the end, over the rows that it shares;
        None if there are none.
        """
        common = [node for node in view.places if node in self.axes]
        conflicts = [node for node in common if node in self.written or node in view.written]
        matched = self._match(view, dict.fromkeys([*conflicts, *common]))
        for node in conflicts:
            along = {self.axes[node][axis] for axis in _agreeing(self.axes[node], view.places[node], matched)}
            matched = {row: variable for row, variable in matched.items() if row in along}
        if not matched:
            return None
        rows = {row: size for row, size in self.rows.items() if row in matched}
        axes = {
            node: {axis: row for axis, row in known.items() if row in rows}
            for node, known in self.axes.items()
        }
        touched = dict(self.touched)
        for node, places in view.places.items():
            found = _row_axes(places, matched)
            if node in axes:
                found = {axis: row for axis, row in axes[node].items() if found.get(axis) == row}
            axes[node] = found
            touched[node] = touched.get(node, 0) + 1
        members = list(self.members)
        members.insert(len(members) - before, Member(view, matched))
        return NestChain(members, rows, axes, self.written | view.written, touched)

    def along(self, variables: Iterable[str]) -> NestChain | None:
        """The chain over its rows that are such variables of its last nest; None if there are none."""
        last, names = self.members[-1], set(variables)
        rows = {row: size for row, size in self.rows.items() if last.variables[row] in names}
        axes = {
            node: {axis: row for axis, row in known.items() if row in rows}
            for node, known in self.axes.items()
        }
        return NestChain(self.members, rows, axes, self.written, self.touched) if rows else None

    def passes_on(self, node: SSAValue) -> bool:
        """Whether a nest of the chain reads values that another one left in the node."""
        return node in self.written and self.touched[node] > 1

    def _match(self, view: NestFootprint, nodes: Mapping[SSAValue, None]) -> dict[str, str]:
        """The variable of a nest for each row, found by the axes of common nodes."""
        matched: dict[str, str] = {}
        for node in nodes:
            for axis, row in self.axes[node].items():
                variables = {place.indices[axis].variable for place in view.places[node]}
                variable = variables.pop()
                if variables or variable is None or variable not in view.free:
                    continue
                is_new = row not in matched and variable not in matched.values()
                if is_new and view.sizes[variable] == self.rows.get(row):
                    matched[row] = variable
        return matched

    def ordered_rows(self) -> list[str]:
        """The rows as loops, outermost first: those with the longest strides outside, those that give
        reductions temporal reuse inside.
        """

        def key(row: str) -> tuple[int, int]:
            places = [(m.variables[row], place) for m in self.members for place in m.view.all_places]
            reused = sum(place.is_reduced and variable not in place.strides for variable, place in places)
            return reused, -max(abs(place.strides.get(variable, 0)) for variable, place in places)

        return sorted(self.rows, key=key)

    def blocks(self, target: TargetDescription) -> dict[str, int]:
        """The size of the block of each row: enough points to keep a nest busy, that stay in the first-level
        cache.

        The tiles of a contraction need many rows, which then stay in the second-level cache.
        """
        contracts = self.contracts
        blocks = dict.fromkeys(self.rows, 1) | self.summed_together(target)
        enough = POINTS_OF_A_CONTRACTION if contracts else POINTS_OF_A_BLOCK
        near = target.l2_bytes // 2 if contracts else target.l1_bytes // 2
        for row in reversed(self.ordered_rows()):
            for divisor in divisors(self.rows[row], near)[1:]:
                if self.points(blocks) >= enough:
                    return blocks
                larger = {**blocks, row: divisor}
                if (self.largest(larger) if contracts else self.bytes(larger)) > near:
                    return blocks
                blocks = larger
        return blocks

    def summed_together(self, target: TargetDescription) -> dict[str, int]:
        """The block of the innermost row at least, where all nests sum along it: what a nest finds in the
        first-level cache saves less than partial results, which are loaded and stored once for a block. A
        single nest finds nothing in a cache; others find a block in the second-level one.
        """
        rows = self.ordered_rows()
        if not rows or self.contracts or not all(member.sums_along(rows[-1:]) for member in self.members):
            return {}
        row, single = rows[-1], dict.fromkeys(rows, 1)
        near = math.inf if len(self.members) == 1 else target.l2_bytes // 2
        sizes = divisors(self.rows[row], SUMMED_TOGETHER)
        return {row: max([1, *(size for size in sizes if self.bytes({**single, row: size}) <= near)])}

    def points(self, blocks: Mapping[str, int]) -> int:
        """The points of the largest nest in a block of rows, without contractions that sum over the rows."""
        members = [m for m in self.members if not (m.view.is_contraction and m.sums_along(blocks))]
        return max(
            [
                math.prod(
                    [size for name, size in member.extents(blocks).items() if name in member.view.counted]
                )
                for member in members
            ],
            default=1,
        )

    def bytes(self, blocks: Mapping[str, int], *, spanned: bool = False) -> int:
        """The bytes that all nests touch in a block of rows; `spanned` counts gaps inside cache lines."""
        largest: dict[SSAValue, int] = {}
        for member in self.members:
            for node, size in member.touched(blocks, spanned).items():
                largest[node] = max(size, largest.get(node, 0))
        return sum(largest.values())

    def largest(self, blocks: Mapping[str, int], *, spanned: bool = False) -> int:
        """The bytes that the nest with the largest footprint touches in a block of rows."""
        return max(sum(member.touched(blocks, spanned).values()) for member in self.members)

    @property
    def contracts(self) -> bool:
        return any(member.view.is_contraction for member in self.members)

    def saved(self, target: TargetDescription, uses: Mapping[SSAValue, int]) -> float:
        """The cycles saved by finding in a cache what an earlier nest touched, less those to start nests once
        a block.

        `uses` tells how many nests touch a local node in all: a node that no nest outside the chain touches
        never leaves the cache.
        """
        blocks = self.blocks(target)
        runs = math.prod(size // blocks[row] for row, size in self.rows.items())
        distance = self._distance(target)
        if runs == 1 or distance is None or self._contracts_along_outermost(blocks):
            return float("-inf")
        ordered = {row: blocks[row] for row in self.ordered_rows()}
        added = sum(member.added_up(ordered, target.l1_bytes // 2) for member in self.members)
        started = sum(member.view.started for member in self.members)
        total = self._streaming(target) - runs * added - runs * started
        for node, count in self.touched.items():
            bytes = max(member.view.reach.get(node, 0) for member in self.members)
            if self.axes[node] and is_far(bytes, target):
                times = count - 1 + (uses.get(node) == count and self.passes_on(node))
                total += times * _fetch(bytes, FARTHEST, distance)
        return total - runs * self._read_again(target)

    def _distance(self, target: TargetDescription) -> float | None:
        """How far away a nest finds what the ones before it left of one row (with contractions, one nest of
        its own): in a near cache or, of rows that have to be reduced as a whole, in a core's share of the
        last one. None if that holds too little.
        """
        single = dict.fromkeys(self.rows, 1)
        row = self.largest(single, spanned=True) if self.contracts else self.bytes(single, spanned=True)
        if row <= target.l2_bytes // 2:
            return 1.0
        return SHARED if row <= target.shared_bytes and self.reduces_rows else None

    @property
    def reduces_rows(self) -> bool:
        """Whether a nest reduces each row as a whole, and none is a contraction."""
        reduced = (m for m in self.members if m.view.summed is not None and not m.sums_along(self.rows))
        return not self.contracts and any(reduced)

    def _contracts_along_outermost(self, blocks: Mapping[str, int]) -> bool:
        """Whether a contraction reduces along the outermost loop over blocks."""
        outermost = next((row for row in self.ordered_rows() if self.rows[row] > blocks[row]), None)
        return outermost is not None and any(
            member.view.is_contraction and member.sums_along((outermost,)) for member in self.members
        )

    def _read_again(self, target: TargetDescription) -> float:
        """The cycles in which reductions read operands again for each block of rows."""
        rows = self.ordered_rows()
        total = 0.0
        distance = FAR if self.bytes(dict.fromkeys(self.rows, 1)) <= target.l2_bytes else FARTHEST
        for member in self.members:
            for place in member.view.places_reduced:
                lacking = [k for k, row in enumerate(rows) if member.variables[row] not in place.strides]
                if lacking:
                    size = place.size(member.extents(dict.fromkeys(rows[: lacking[0]], 1)))
                    if size > target.l2_bytes // 2:
                        return float("inf")
                    total += _fetch(size, distance) if size > target.l1_bytes // 2 else 0.0
        return total

    def _streaming(self, target: TargetDescription) -> float:
        """The cycles saved by reading the operands of a reduction in the order of memory."""
        total = 0.0
        for member in self.members:
            summed = member.view.summed
            if summed is None or member.view.is_contraction or not member.sums_along(self.rows):
                continue
            along = {member.variables[row] for row in self.rows} & set(summed.space.names)
            for place in member.view.places_reduced:
                # Along the longest stride blocks of rows follow each other in memory.
                outermost = max(place.strides, key=lambda name: abs(place.strides[name]), default="")
                size = place.size(member.view.sizes)
                if outermost in along and is_far(size, target):
                    total += _fetch(size, FARTHEST) / 4
        return total


def is_far(bytes: int, target: TargetDescription) -> bool:
    """Whether so many bytes have left the caches of a core by the next nest."""
    return bytes > target.l2_bytes


def _fetch(bytes: int, distance: float, nearer: float = 1.0) -> float:
    """The extra cycles of touching bytes at a distance, relative to a nearer one: the first-level cache."""
    return bytes / LINE * (distance - nearer) / 2


def _row_axes(places: list[AccessFootprint], variables: Mapping[str, str]) -> dict[int, str]:
    """The axes of a node at which all accesses of a nest are indexed by the variable of a row."""
    rows = {variable: row for row, variable in variables.items()}
    found: dict[int, str] = {}
    for axis, index in enumerate(places[0].indices):
        row = rows.get(index.variable or "")
        if row is not None and all(place.indices[axis] == index for place in places):
            found[axis] = row
    return found


def _agreeing(
    axes: Mapping[int, str], places: list[AccessFootprint], matched: Mapping[str, str]
) -> list[int]:
    """The axes along rows at which all accesses of a nest are indexed by its variables for the same rows."""
    return [
        axis
        for axis, row in axes.items()
        if row in matched and all(place.indices[axis].variable == matched[row] for place in places)
    ]
