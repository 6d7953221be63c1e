"""A cost model: an estimate of the cycles that a nest takes with a register tile.

It only has to rank schedules. Loads and arithmetic overlap, two of each a cycle; a reduction waits for the
latency of its accumulators; accesses that are not contiguous along the lanes move element by element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.layouts import Layout, is_spaced
from ocannl.passes.analysis.costs.page_walks import PAGE
from ocannl.passes.analysis.costs.tile_means import mean_extent, mean_of_tiles, whole_tiles
from ocannl.passes.analysis.costs.touched_bytes import reuse
from ocannl.passes.analysis.schedules.nest_facts import Access, ScopeFacts
from ocannl.passes.analysis.schedules.panels import has_row_panels
from ocannl.passes.analysis.schedules.shared_operands import can_be_copied, points_that_share
from ocannl.passes.analysis.targets.target import INTERLEAVED, LARGEST_INSIDE, TargetDescription

LOOP_OVERHEAD = 0.25
# On cores that halve vectors, the part of the loads of a step that its multiplications do not hide, and the
# cycles that they wait for the shuffle of an element that is moved alone.
SHOWN, MOVED_WAIT = 0.05, 0.4
ADDITION_LATENCY = 4.0
MOVED_ELEMENT = 2.0
TRANSPOSED_VECTOR = 2.5
# The cost of a shuffle of a vector, for each other row with which it is interleaved.
INTERLEAVED_ROW = 2.0
# The time of a load from the second-level cache, from a core's share of the last one, and from beyond all of
# them, relative to the first-level cache.
FAR, SHARED, FARTHEST = 2.0, 5.0, 6.0
# That of a vector along a sum from the second-level cache, which no other work hides; and the part of the
# first-level cache in which such vectors, and lines of tiles, stay.
FAR_ALONG, ALONG = 4.0, 3 / 4
# The cache lines that could be prefetched in the time of a tile from beyond the caches that follows no other.
APART = 3.5
# The pages whose addresses a core has at hand, and the cost of another.
PAGES, PAGE_MISS = 64, 8.0
# The cycles that a step of a reduction waits for short rows of such pages, for rows of a copy without panels,
# and for vectors of one page.
PAGE_WAIT, COPY_WAIT, VECTOR_WAIT = 4.0, 0.5, 1.5
# Addresses at a multiple of these distances map to the same set of a cache; strides of less than several
# tiles do not conflict.
L1_WAY, L2_WAY, WIDE_STEP = 2**12, 2**16, 4
# The cost of a row that other rows of the same set have replaced.
CONFLICT = 3.0
# The cycles that a step of a reduction waits for a line that others of the same set have replaced, where
# vectors are as long as a line, and where they are shorter: a step of these takes no longer than the lines.
SET_WAIT, SHORT_SET_WAIT = 0.03, 0.5
# The cycles that a step waits for a line of a tile, of which the first-level cache would hold all bytes, but
# not the whole lines that these lie in.
LINE_WAIT = 0.5
HORIZONTAL_STEP = 1.5
PACKING_SETUP = 5000.0
# The cycles to copy an element into a panel that stays near, and into a large copy.
PACKED_ELEMENT, PACKED_FAR = 0.4, 1.0
# The cycles that longer code must save: an operation, an element moved alone, a vector transposed, a vector
# summed over its lanes.
CODE_OPERATION, CODE_ELEMENT, CODE_TRANSPOSED, CODE_HORIZONTAL = 4.0, 20.0, 40.0, 60.0
# Independent accumulators that hide the latency of a reduction.
INDEPENDENT = 8


class ReadCost(NamedTuple):
    """The cost of an operand in a step of a reduction, and the cycles that the step waits for it: as it is,
    and from a packed copy.
    """

    direct: float
    copied: float
    wait: float = 0.0
    copy_wait: float = 0.0

    @property
    def saving(self) -> float:
        return self.direct + self.wait - self.copied - self.copy_wait


@dataclass(frozen=True, slots=True)
class ScopeTile:
    """The tile in one scope: the variables there, its lanes and rows, and how many tiles there are.

    Its rows are `vectors`, of which a core that halves them multiplies halves: `multiplied` counts such as
    half a vector. `squares` is the part of the tiles that are whole squares.
    """

    sizes: Mapping[str, int]
    lanes: str | None
    width: int
    vectors: float
    multiplied: float
    rows: str | None
    height: float
    runs: float
    squares: float = 0.0

    def stride(self, access: Access) -> int:
        return 0 if self.lanes is None else access.strides.get(self.lanes, 0)

    def row_stride(self, access: Access) -> int:
        return 0 if self.rows is None else access.strides.get(self.rows, 0)


@dataclass(slots=True)
class TileCost:
    """The cost of the tile of a schedule, for a nest over the variables `own`.

    Copies in panels of the nodes `kept` cost each run only a part of their cycles. `packed` collects the
    loads that are worth a packed copy, and `code` the price of the code's length.
    """

    schedule: Schedule
    target: TargetDescription
    element_bytes: int
    own: Mapping[str, int]
    kept: Mapping[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    packed: list[LoadOp] = field(default_factory=list[LoadOp])
    code: float = 0.0

    def nest(self, facts: ScopeFacts) -> float:
        """The cycles of a nest, with those that its length of code counts as."""
        return self.scope(facts) + self.code

    def scope(self, scope: ScopeFacts) -> float:
        """The cycles of a scope and of the scopes in it."""
        view = self.view(scope)
        arithmetic = scope.work * view.height * view.multiplied
        self.code += CODE_OPERATION * view.height * (scope.work + 1)
        if isinstance(scope.op, NestOp):
            memory = sum([self.access(a, view, self.distance(self.bytes(a, view))) for a in scope.accesses])
            self.code += sum([self.code_size(access, view) for access in scope.accesses])
            total = view.runs * self.step(memory, arithmetic)
        else:
            total = self.reduction(scope, view, arithmetic)
        for inner in scope.inner:
            total += self.scope(inner)
        return total

    def step(self, memory: float, arithmetic: float) -> float:
        return max(memory, arithmetic) / 2 + LOOP_OVERHEAD

    def summed_step(self, memory: float, arithmetic: float) -> float:
        """The cycles of a step of a reduction."""
        if not self.target.halves_vectors:
            return self.step(memory, arithmetic)
        return max(memory / 2, arithmetic) + SHOWN * memory / 2 + LOOP_OVERHEAD

    def reduction(self, scope: ScopeFacts, view: ScopeTile, arithmetic: float) -> float:
        """The cycles of a reduction, with packed copies of the operands for which that pays."""
        moving = [access for access in scope.accesses if access.strides.keys() & scope.space.keys()]
        costs = [self.reduced_access(access, scope, view) for access in moving]
        memory, copies = sum([cost.direct for cost in costs]), 0.0
        waiting = sum([cost.wait for cost in costs])
        latency = self.latency(scope, view)
        total = view.runs * (max(self.summed_step(memory, arithmetic), latency) + waiting)
        saving_most = sorted(zip(moving, costs, strict=True), key=lambda found: -found[1].saving)
        for access, cost in saving_most:
            assert isinstance(access.op, LoadOp)
            is_apart = access.op.positions or not can_be_copied(access.op)
            if is_apart or self.is_streamed(access, scope, view):
                self.code += self.code_size(access, view)
                continue
            rest = memory - cost.direct + cost.copied
            still = waiting - cost.wait + cost.copy_wait
            copy = copies + self.packing(access, scope, view)
            packed = copy + view.runs * (max(self.summed_step(rest, arithmetic), latency) + still)
            code = self.code_size(access, view)
            if packed < total + code:
                self.packed.append(access.op)
                memory, copies, waiting, total = rest, copy, still, packed
            else:
                self.code += code
        return total + self.across_lanes(scope, view)

    def is_streamed(self, access: Access, scope: ScopeFacts, view: ScopeTile) -> bool:
        """Whether an access reads each element once, along the lanes: a copy would be as slow to make."""
        once = all(name in access.strides for name, size in scope.around.items() if size > 1)
        return once and view.stride(access) == 1

    def packing(self, access: Access, scope: ScopeFacts, view: ScopeTile) -> float:
        """The cycles to make a packed copy, which is near where one panel at a time is made."""
        copied, panel, part = self.bytes(access, view), self.bytes(access, view), 1.0
        lanes = 0 if view.lanes is None else view.sizes[view.lanes]
        if lanes and view.stride(access) and not lanes % view.width:
            part = self.kept.get(access.op.node, 1.0)
            panel = copied * view.width // lanes
        assert isinstance(access.op, LoadOp)
        shared = points_that_share(access.op)
        if shared == 1:  # each point of a group copies what it reads
            inside = self.own.keys() | scope.space.keys()
            around = [view.sizes.get(name, 1) for name in access.strides if name not in inside]
            panel //= max(1, math.prod(around))
        element = PACKED_ELEMENT if panel <= LARGEST_INSIDE else PACKED_FAR
        return part * (PACKING_SETUP + element * copied / access.bytes) / shared

    def view(self, scope: ScopeFacts) -> ScopeTile:
        sizes = scope.around | scope.space
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
        size = width if lanes is None else sizes[lanes]
        vectors, multiplied = (mean_of_tiles(count, size, width) for count in (self.vectors, self.multiplied))
        squares = 0.0
        if lanes is not None and rows in involved and height == width:
            squares = math.prod([whole_tiles(sizes[name], width) for name in (lanes, rows)])
        return ScopeTile(sizes, lanes, width, vectors, multiplied, rows, mean_height, runs, squares)

    def lanes(self, scope: ScopeFacts) -> tuple[str, int] | None:
        """The vector dimension of a scope: a reduction on which no lane depends is vectorized along its own
        innermost loop.
        """
        lanes = self.schedule.lanes
        if lanes is None or lanes[0] in scope.varies or lanes[0] in scope.space or lanes[0] not in self.own:
            return lanes
        last = next(reversed(scope.space), None)
        strides = {access.strides.get(last, 0) for access in scope.accesses if last}
        return (last, lanes[1]) if last and strides <= {0, 1} and 1 in strides else None

    def vectors(self, width: int) -> int:
        return max(1, -(-width * self.element_bytes // self.target.vector_bytes))

    def multiplied(self, width: int) -> float:
        """The vectors of a tile in the time that it takes to multiply them."""
        is_half = 2 * width * self.element_bytes <= self.target.vector_bytes
        return 1 / 2 if is_half and self.target.halves_vectors else self.vectors(width)

    def reduced_access(self, access: Access, scope: ScopeFacts, view: ScopeTile) -> ReadCost:
        """The cost of an access in a reduction."""
        if view.lanes not in self.own or access.op.positions:
            direct = self.along_sum(access, scope, view)
            return ReadCost(direct, direct)
        rows, stride = self.rows(access, view), view.stride(access)
        instructions = rows * (view.vectors if stride else 1)
        tile = rows * (self.lane_count(view) if stride else 1) * access.bytes
        steps = [name for name in scope.space if name in access.strides]
        whole = access.bytes * math.prod(memref_shape(access.op.node))
        total = min(whole, int(tile) * math.prod([scope.space[name] for name in steps]))
        if rows > 1 and self.is_streamed(access, scope, view):
            total = whole
        pitch = math.gcd(*[access.bytes * access.strides[name] for name in steps])
        is_compact = 1 in (stride, view.row_stride(access))
        least = min(LINE, pitch) if is_compact else 0
        conflicts = 0.0 if stride else self.conflicts(access, rows, view.row_stride(access))
        misses = self.page_misses(total, tile, pitch)
        side = self.side_by_side(access, view, tile)
        far = self.far(total, tile, pitch, least, side)
        direct = self.access(access, view, 1.0) + far + misses + conflicts
        is_row = not stride and view.row_stride(access) == 1
        wait = PAGE_WAIT * bool(misses) if is_row else VECTOR_WAIT * misses / PAGE_MISS
        wait += self.set_wait(total, tile, pitch) if stride else 0.0
        wait += self.line_wait(total, tile, pitch) if stride == 1 else 0.0
        if self.layout(access, view) is Layout.STRIDED:
            direct += self.conflicts(access, self.lane_count(view), stride)
            wait += MOVED_WAIT * rows * self.lane_count(view) * self.target.halves_vectors
        has_panels = not (is_row and misses) or has_row_panels(access.op, self.own, self.schedule)
        size = view.sizes[view.lanes] if view.lanes is not None and stride else 0
        if size > view.width and size % view.width:  # a copy is in no panels
            if stride == 1:
                return ReadCost(direct, math.inf, wait)
            pitch = size * access.bytes
            missed = self.page_misses(total, tile, pitch)
            far = self.far(total, tile, pitch, min(LINE, pitch), tile)
            copy_wait = VECTOR_WAIT * missed / PAGE_MISS + self.line_wait(total, tile, pitch)
            return ReadCost(direct, instructions + far + missed, wait, copy_wait)
        copied = instructions + conflicts + (self.distance(total) - 1) * tile / LINE
        return ReadCost(direct, copied, wait, 0.0 if has_panels else COPY_WAIT)

    def along_sum(self, access: Access, scope: ScopeFacts, view: ScopeTile) -> float:
        """The cost of a load along the lanes of a sum, by what it touches before it reads the same again."""
        whole = self.distance(self.bytes(access, view))
        if view.lanes not in scope.space or access.op.positions:
            return self.access(access, view, whole)
        farthest = max([self.distance(self.bytes(other, view)) for other in scope.accesses])
        nearest = 2.0 if self.target.halves_vectors and farthest < FARTHEST else 1.0
        found = reuse(access, scope, self.own, self.schedule)
        if found is None:
            return self.access(access, view, max(nearest, whole))
        conflicts = self.conflicts(access, self.rows(access, view), view.row_stride(access))
        if found.between <= ALONG * self.target.l1_bytes:
            near = nearest + max(0.0, whole - nearest) / found.times
            return self.access(access, view, near) + conflicts
        far = FAR_ALONG if found.between <= self.target.l2_bytes // 2 else FARTHEST
        return self.access(access, view, far) + conflicts

    def side_by_side(self, access: Access, view: ScopeTile, tile: float) -> float:
        """The bytes of a tile that lie side by side: of contiguous lanes in rows that are apart, one row."""
        row, lanes = view.row_stride(access), self.lane_count(view)
        are_apart = view.stride(access) == 1 and abs(row) > lanes
        return lanes * access.bytes if are_apart else tile

    def far(self, total: int, tile: float, pitch: int, least: int, side: float) -> float:
        """The cost of what a step of a reduction reads from beyond the first-level cache: a tile, or at least
        so many bytes, `pitch` bytes from the next one, of which `side` lie side by side.
        """
        distance = self.distance(total, int(tile), pitch)
        lines = max(tile, least) / LINE + (APART if distance == FARTHEST and pitch > side else 0.0)
        # Whole lines that begin anywhere reach into one more, which vectors then stand on, too.
        split = distance if distance > 1 and least >= LINE <= tile and pitch % LINE else 0.0
        return (distance - 1) * lines + split

    def set_wait(self, total: int, tile: float, pitch: int) -> float:
        """The cycles that a step of a reduction waits for the lines of a tile that the first-level cache
        would hold, if the tiles of other steps did not meet in the same sets of it.
        """
        meets = self.distance(total, int(tile), pitch) > self.distance(total) == 1.0
        wait = SET_WAIT if self.target.vector_bytes >= LINE else SHORT_SET_WAIT
        return wait * tile / LINE if meets else 0.0

    def line_wait(self, total: int, tile: float, pitch: int) -> float:
        """The cycles that a step of a reduction waits for the lines of contiguous tiles `pitch` bytes apart,
        which begin anywhere in a line, where the first-level cache has room for the tiles, but not for lines.
        """
        touched = min(pitch, tile + LINE - math.gcd(pitch, LINE))
        has_room = total / tile * touched <= ALONG * self.target.l1_bytes
        return 0.0 if has_room or self.distance(total) > 1.0 else LINE_WAIT * touched / LINE

    def conflicts(self, access: Access, rows: float, stride: int) -> float:
        """The cost of rows of memory, so many elements apart, that meet in so few sets of the first-level
        cache that they do not stay there.
        """
        return CONFLICT * rows if rows > rows_that_stay(access.bytes * stride, self.target) else 0.0

    def page_misses(self, total: int, tile: float, pitch: int) -> float:
        """The cost of the pages that a step of a reduction touches first, in tiles `pitch` bytes apart."""
        reach = total / tile * pitch
        return PAGE_MISS * min(1.0, pitch / PAGE) if reach > PAGES * PAGE and pitch > tile else 0.0

    def distance(self, total: int, tile: int = 1, pitch: int = 1) -> float:
        """How many times as long as in the first-level cache a load takes, by its reuse distance.

        The `total` bytes are read again and again, in tiles that stand `pitch` bytes apart; long power-of-two
        pitches meet in few sets of a cache.
        """
        for size, way, factor in ((self.target.l1_bytes, L1_WAY, 1.0), (self.target.l2_bytes, L2_WAY, FAR)):
            # Steps by multiples of a large power of two meet in few places of a cache.
            apart = math.gcd(way, pitch)
            room = size // apart * tile if apart >= WIDE_STEP * tile else size
            if total <= min(room, size) // 2:
                return factor
        return FARTHEST

    def access(self, access: Access, view: ScopeTile, distance: float) -> float:
        """The cost of an access of one tile, in instructions, with its conversions."""
        rows = self.rows(access, view)
        converted = access.conversion * rows * (view.vectors if view.stride(access) else 1)
        return converted + self.moved(access, view, rows, distance)

    def moved(self, access: Access, view: ScopeTile, rows: float, distance: float) -> float:
        """The cost of the loads or stores of an access, without conversions."""
        issue = 2.0 if isinstance(access.op, StoreOp) else 1.0
        # What is far comes in whole lines, of which a vector may be a part.
        lines = 1 + (distance - 1) * min(1, self.target.vector_bytes / LINE)
        match self.layout(access, view):
            case Layout.UNIFORM:
                return issue * rows
            case Layout.CONTIGUOUS:
                return issue * rows * view.vectors * lines
            case Layout.REVERSED:
                return issue * rows * view.vectors * (lines + 1)
            case Layout.TRANSPOSED:
                squares = view.squares * view.width
                beside = rows * self.lane_count(view) - squares * view.width
                transposed = issue * squares * self.vectors(view.width) * TRANSPOSED_VECTOR * lines
                return transposed + issue**2 * MOVED_ELEMENT * beside * distance
            case Layout.INTERLEAVED:
                return issue * rows * view.vectors * (lines + INTERLEAVED_ROW * (rows - 1))
            case Layout.SPACED:
                apart = abs(view.stride(access))
                read = apart if isinstance(access.op, LoadOp) else 1
                return issue * rows * view.vectors * (read * lines + INTERLEAVED_ROW * (apart - 1))
            case Layout.STRIDED:
                return issue**2 * MOVED_ELEMENT * rows * self.lane_count(view) * distance

    def code_size(self, access: Access, view: ScopeTile) -> float:
        """The price of the length of an access's code, in cycles."""
        match self.layout(access, view):
            case Layout.TRANSPOSED:
                beside = [view.sizes[name] % view.width for name in (view.lanes, view.rows) if name]
                moved = view.width * sum(beside) + math.prod(beside)
                return CODE_TRANSPOSED * view.width + CODE_ELEMENT * moved
            case Layout.INTERLEAVED:
                return CODE_OPERATION * self.rows(access, view) ** 2 * view.vectors
            case Layout.SPACED:
                return CODE_OPERATION * self.rows(access, view) * abs(view.stride(access)) * view.vectors
            case Layout.STRIDED:
                return CODE_ELEMENT * self.rows(access, view) * self.lane_count(view)
            case _:
                return 0.0

    def layout(self, access: Access, view: ScopeTile) -> Layout:
        """The layout of an access along the lanes."""
        stride = view.stride(access)
        if view.lanes in access.scattered:
            return Layout.STRIDED
        if stride in (0, 1):
            return Layout.CONTIGUOUS if stride else Layout.UNIFORM
        if stride == -1:
            return Layout.REVERSED
        if view.row_stride(access) != 1 or view.rows in access.scattered:
            return Layout.SPACED if is_spaced(access, stride) else Layout.STRIDED
        if view.squares:
            return Layout.TRANSPOSED
        return Layout.INTERLEAVED if stride == view.height <= INTERLEAVED else Layout.STRIDED

    def lane_count(self, view: ScopeTile) -> float:
        return 1.0 if view.lanes is None else mean_extent(view.sizes[view.lanes], view.width)

    def rows(self, access: Access, view: ScopeTile) -> float:
        return view.height if view.rows in access.strides else 1.0

    def bytes(self, access: Access, view: ScopeTile) -> int:
        """The bytes that an access touches in the whole nest."""
        return access.bytes * math.prod([view.sizes[name] for name in access.strides if name in view.sizes])

    def latency(self, scope: ScopeFacts, view: ScopeTile) -> float:
        """The cycles between two dependent steps of a reduction."""
        if isinstance(scope.op, NestOp):
            return 0.0
        if view.lanes not in scope.space:
            return ADDITION_LATENCY / chains(view.height * view.vectors, self.target)
        across = min(INDEPENDENT / view.height, scope.space[view.lanes] // view.width)
        return ADDITION_LATENCY / max(1.0, across)

    def across_lanes(self, scope: ScopeFacts, view: ScopeTile) -> float:
        """The cycles of the horizontal reduction of the lanes at the end."""
        if view.lanes not in scope.space:
            return 0.0
        self.code += CODE_HORIZONTAL * view.height
        results = max(1.0, view.runs * view.width / math.prod(scope.space.values()))
        return results * view.height * math.log2(max(2, view.width)) * HORIZONTAL_STEP


def chains(accumulators: float, target: TargetDescription) -> int:
    """The number of accumulator chains: independent partial sums that hide the latency of additions."""
    most = target.accumulators // max(1, math.ceil(accumulators))
    return max(1, min(most, math.ceil(INDEPENDENT / accumulators)))


def rows_that_stay(apart: int, target: TargetDescription) -> int:
    """The rows, so many bytes apart, that the sets of the first-level cache in which they meet hold."""
    return L1_WAY // math.gcd(L1_WAY, apart) * (target.l1_bytes // L1_WAY)
