"""An estimate of the cycles that a nest takes with a register tile.

It only has to rank schedules: loads and arithmetic overlap, two of each a cycle; a reduction waits for its
accumulators; what is not contiguous along the lanes moves element by element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ocannl.dialects.loops import LoadOp, NestOp, Schedule, StoreOp
from ocannl.passes.nest_facts import Access, Scope
from ocannl.passes.target import TargetDescription

LOOP_OVERHEAD = 0.25
ADDITION_LATENCY = 4.0
MOVED_ELEMENT = 2.0
TRANSPOSED_VECTOR = 2.5
# How much longer a load takes from the second-level cache, and from beyond it.
FAR, FARTHEST = 2.0, 6.0
LINE = 64
# Places that are this far apart share the lines of a cache; steps that matter so are some tiles wide.
L1_WAY, L2_WAY, WIDE_STEP = 2**12, 2**16, 4
HORIZONTAL_STEP = 1.5
PACKING_SETUP = 5000.0
PACKED_ELEMENT = 0.4
# The cycles that a run must save for one more vector, moved element or transposed vector in the code.
CODE_VECTOR, CODE_ELEMENT, CODE_TRANSPOSED = 4.0, 1.0, 40.0
# Accumulators that hide the latency of a reduction along the lanes.
INDEPENDENT = 8


@dataclass(frozen=True, slots=True)
class View:
    """The tile in one scope: its lanes and rows there, and how many tiles there are."""

    lanes: str | None
    width: int
    vectors: int
    rows: str | None
    height: float
    runs: float


@dataclass(slots=True)
class TileCost:
    """Costs the tile of a schedule for a nest over the variables `own`.

    `packed` are the loads that are worth a contiguous copy, found on the way.
    """

    schedule: Schedule
    target: TargetDescription
    element_bytes: int
    own: Mapping[str, int]
    packed: list[LoadOp] = field(default_factory=list[LoadOp])
    code: float = 0.0

    def nest(self, facts: Scope) -> float:
        return self.scope(facts) + self.code

    def scope(self, scope: Scope) -> float:
        """The cycles of a scope and of the scopes in it."""
        sizes = scope.around | scope.space
        view = self.view(scope, sizes)
        is_reduction = not isinstance(scope.op, NestOp)
        memory = 0.0
        for access in scope.accesses:
            if is_reduction and access.strides.keys() & scope.space.keys():
                memory += self.reduced_access(access, scope, view, sizes)
            elif not is_reduction:
                memory += self.access(access, view, sizes, self.distance(self.bytes(access, sizes)))
        arithmetic = scope.work * view.height * view.vectors
        self.code += CODE_VECTOR * view.height * view.vectors
        step = max(memory / 2, arithmetic / 2) + LOOP_OVERHEAD
        total = view.runs * max(step, self.latency(scope, view)) + self.across_lanes(scope, view)
        for inner in scope.inner:
            total += self.scope(inner)
        return total

    def view(self, scope: Scope, sizes: Mapping[str, int]) -> View:
        involved = scope.varies | scope.space.keys()
        lanes, width = self.lanes(scope) or (None, 1)
        rows, height = self.schedule.rows or (None, 1)
        runs = 1
        for name in involved:
            extent = width if name == lanes else height if name == rows else 1
            runs *= math.ceil(sizes[name] / extent)
        if lanes not in involved:
            lanes, width = None, 1
        mean_height = mean_extent(sizes[rows], height) if rows is not None and rows in involved else 1.0
        return View(lanes, width, self.vectors(width), rows, mean_height, runs)

    def lanes(self, scope: Scope) -> tuple[str, int] | None:
        """The vector dimension of a scope: a reduction that all lanes share has lanes of its own."""
        lanes = self.schedule.lanes
        if lanes is None or lanes[0] in scope.varies or lanes[0] in scope.space or lanes[0] not in self.own:
            return lanes
        last = next(reversed(scope.space), None)
        strides = {access.strides.get(last, 0) for access in scope.accesses if last}
        return (last, lanes[1]) if last and strides <= {0, 1} and 1 in strides else None

    def vectors(self, width: int) -> int:
        return max(1, -(-width * self.element_bytes // self.target.vector_bytes))

    def reduced_access(self, access: Access, scope: Scope, view: View, sizes: Mapping[str, int]) -> float:
        """An access in a reduction, from a contiguous copy where that saves more than it costs."""
        if view.lanes is None or view.lanes not in self.own:
            return self.access(access, view, sizes, self.distance(self.bytes(access, sizes)))
        rows, stride = self.rows(access, view), access.strides.get(view.lanes, 0)
        tile = rows * (view.vectors * self.target.vector_bytes if stride else access.bytes)
        lines = (
            max(1.0, tile / LINE) if stride == 1 or access.strides.get(view.rows or "") == 1 else tile / LINE
        )
        steps = [name for name in scope.space if name in access.strides]
        total = int(tile * math.prod([scope.space[name] for name in steps]))
        pitch = math.gcd(*[access.bytes * access.strides[name] for name in steps])

        direct = self.access(access, view, sizes, 1.0) + (self.distance(total, int(tile), pitch) - 1) * lines
        copied = rows * (view.vectors if stride else 1) + (self.distance(total) - 1) * tile / LINE
        elements = math.prod([sizes[name] for name in access.strides if name in sizes])
        cost = PACKING_SETUP + PACKED_ELEMENT * elements
        if view.runs * (direct - copied) / 2 <= cost:
            return direct
        assert isinstance(access.op, LoadOp)
        self.packed.append(access.op)
        return copied + 2 * cost / view.runs

    def distance(self, total: int, tile: int = 0, pitch: int = 0) -> float:
        """How many times as long as in the first-level cache a load takes.

        The `total` bytes are read again and again, in tiles that stand `pitch` bytes apart.
        """
        for size, way, factor in ((self.target.l1_bytes, L1_WAY, 1.0), (self.target.l2_bytes, L2_WAY, FAR)):
            # Steps by multiples of a large power of two meet in few places of a cache.
            apart = math.gcd(way, pitch)
            room = size // apart * tile if apart >= WIDE_STEP * tile else size
            if total <= min(room, size // 2):
                return factor
        return FARTHEST

    def access(self, access: Access, view: View, sizes: Mapping[str, int], distance: float) -> float:
        """The cost of an access of one tile, in instructions."""
        rows = self.rows(access, view)
        issue = 2.0 if isinstance(access.op, StoreOp) else 1.0
        stride = 0 if view.lanes is None else access.strides.get(view.lanes, 0)
        if view.lanes is None or stride == 0:
            return issue * rows
        if stride == 1:
            return issue * rows * view.vectors * distance
        if view.height == view.width and view.rows is not None and access.strides.get(view.rows) == 1:
            self.code += CODE_TRANSPOSED * rows
            return issue * rows * view.vectors * TRANSPOSED_VECTOR * distance
        elements = rows * mean_extent(sizes[view.lanes], view.width)
        self.code += CODE_ELEMENT * elements
        return issue * MOVED_ELEMENT * elements

    def rows(self, access: Access, view: View) -> float:
        return view.height if view.rows in access.strides else 1.0

    def bytes(self, access: Access, sizes: Mapping[str, int]) -> int:
        return access.bytes * math.prod([sizes[name] for name in access.strides if name in sizes])

    def latency(self, scope: Scope, view: View) -> float:
        """The cycles between two steps of a reduction, which depend on each other."""
        if isinstance(scope.op, NestOp):
            return 0.0
        if view.lanes not in scope.space:
            return ADDITION_LATENCY
        return ADDITION_LATENCY / max(
            1.0, min(INDEPENDENT / view.height, scope.space[view.lanes] // view.width)
        )

    def across_lanes(self, scope: Scope, view: View) -> float:
        """The cycles of combining the lanes at the end of a reduction along them."""
        if view.lanes not in scope.space:
            return 0.0
        results = max(1.0, view.runs * view.width / math.prod(scope.space.values()))
        return results * view.height * math.log2(max(2, view.width)) * HORIZONTAL_STEP


def mean_extent(size: int, extent: int) -> float:
    """The points in a tile of `extent`, on average over all tiles."""
    return size / math.ceil(size / extent) if size else 1.0
