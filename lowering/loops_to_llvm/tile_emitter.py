"""Emits the operations of a nest on a register tile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import POSITION
from ocannl.dialects.index.memref import loaded_type, memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, PositionOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import Position
from ocannl.lowering.llvm.indices import from_index, linear_value
from ocannl.lowering.llvm.instructions import emit_position, select
from ocannl.lowering.llvm.memory import Found
from ocannl.lowering.llvm.operations import emit_operation
from ocannl.lowering.llvm.types import BIT, BYTE, I32, I64, ValueType, literal, value_type, vector
from ocannl.lowering.loops_to_llvm.blocks_ahead import blocks_ahead
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.panels_ahead import panels_ahead
from ocannl.lowering.loops_to_llvm.results_ahead import results_ahead, sums_first
from ocannl.lowering.loops_to_llvm.rows_ahead import product_rows_ahead, rows_ahead
from ocannl.lowering.loops_to_llvm.strips_ahead import has_strips, strips_ahead
from ocannl.lowering.loops_to_llvm.tile import Lanes, Segment, Tile
from ocannl.lowering.loops_to_llvm.tile_access import ALL_LEVELS, SECOND_LEVEL, TO_WRITE, TileAccess
from ocannl.lowering.loops_to_llvm.transpose import deinterleave, interleave, transpose
from ocannl.lowering.placement import Placement, place
from ocannl.passes.analysis.costs.cache_lines import alignment_in_line, fills_lines
from ocannl.passes.analysis.nests import declaration
from ocannl.passes.analysis.schedules.store_groups import ends_group, stores_side_by_side
from ocannl.passes.analysis.targets.target import INTERLEAVED


class TileEmitter(ABC):
    """Emits operations on the register tile of `height` rows and of `lanes`.

    `ahead` tells of loads how many elements further the next point of a group, or the next tile, will be.
    """

    def __init__(self, env: Environment, nest: NestOp, ahead: Mapping[Operation, int] | None = None) -> None:
        self.schedule = schedule = nest.schedule.data if nest.schedule is not None else Schedule()
        self.env = env
        self.b = env.b
        self.positions = env.positions
        self.nest = nest
        self.placement: Placement = place(nest, schedule)
        self.ahead = ahead or {}
        self.rows_ahead = rows_ahead(self.placement, schedule)
        self.next_rows = product_rows_ahead(self.placement, schedule)
        self.next_panels = (
            panels_ahead(self.placement, schedule) | strips_ahead(self.placement, schedule)
            if has_strips(self.placement, schedule)
            else {}
        )
        self.next_blocks = blocks_ahead(nest, self.placement, schedule)
        self.results_ahead = results_ahead(nest, self.placement, schedule)
        self.row_variable, self.row_extent = schedule.rows or (None, 1)
        self.rows_apart = 1
        """How far rows of a tile are from each other."""
        self.lane_variable, self.lane_extent = schedule.lanes or (None, 1)
        self.chains = schedule.chains
        self.height = 1
        self.lanes = Lanes()
        self.values: dict[SSAValue, Tile] = {}

    @abstractmethod
    def reduce(self, op: ReduceOp) -> Tile:
        """Emits a reduction, with its loops; returns its result."""

    def run(
        self,
        variable: str,
        segment: Segment,
        body: Callable[[Sequence[str]], Sequence[str]],
        carried: Sequence[str] = (),
        type: str = "",
    ) -> Sequence[str]:
        """Emits `body` for the steps of a segment, on carried values of one type; returns their last ones."""
        if segment.count == 1:
            self.positions[variable] = Position(None, segment.start)
            return body(carried)
        initial = [(type, value) for value in carried]
        loop = self.env.open_loop(variable, segment.start, segment.stop, segment.extent, initial)
        results = body(loop.phis)
        self.b.close_loop(loop, results)
        return results

    def emit_ops(self, ops: Sequence[Operation]) -> None:
        for op in sums_first(ops, self.results_ahead):
            self.b.at(op)
            match op:
                case LoadOp():
                    # A branch before all loads: no scalar of a row waits in a register behind it.
                    self.fetch_next_blocks(op)
                    self.values[op.result] = self.load(op)
                case StoreOp():
                    self.store(op)
                case ReduceOp():
                    self.values[op.result] = self.reduce(op)
                case IndexOp():
                    self.values[op.result] = self.index(op)
                case PositionOp():
                    self.position(op)
                case arith.ConstantOp():
                    self.values[op.result] = Tile([literal(op.value)], value_type(op.result.type), 0)
                case _:
                    self.values[op.results[0]] = self.scalar(op)

    def access(self, op: LoadOp | StoreOp) -> RowAccess:
        """The accesses of a load or store at all rows and lanes of the tile."""
        address = self.placement.addresses[op]
        element = value_type(loaded_type(op.node))
        tiles = {f"{POSITION}{k}": self.values[position] for k, position in enumerate(op.positions)}
        rows: list[TileAccess] = []
        for row in range(max([len(tile.rows) for tile in tiles.values()], default=1)):
            at = [(name, self.row(tile, row), tile) for name, tile in tiles.items()]
            found = {name: Found(value, tile.depth) for name, value, tile in at if not tile.type.width}
            lanes = {name: value for name, value, tile in at if tile.type.width}
            access = self.env.access(op.node, address, element, found, lanes)
            if self.b.checks:
                text = f"nest `{self.nest.label.data}`, `{declaration(op.node).label.data}`"
                access.check(self.env.pointers[op.node], math.prod(memref_shape(op.node)), text)
            rows.append(access)
        row_stride = self.rows_apart * address.stride(self.row_variable)
        return RowAccess(rows, row_stride, address.stride(self.lane_variable))

    def load(self, op: LoadOp) -> Tile:
        access = self.access(op)
        row_stride, lane_stride = access.row_stride, access.lane_stride
        height = self.height if access.has_rows else 1
        if not access.has_lanes or self.lanes.width == 1:
            rows = [access.row(row).load(row * row_stride) for row in range(height)]
            self.fetch_next_rows(op, access, height)
            self.fetch_next_panel(op)
            return Tile(rows, access.type, self.b.depth)
        type = vector(access.type, self.lanes.width)
        if self.crosses(access):
            columns = [
                access.row(0).load_vector(lane * lane_stride, 1, Lanes(height, height))
                for lane in range(self.lanes.active)
            ]
            columns += ["zeroinitializer"] * (self.lanes.width - len(columns))
            return Tile(transpose(self.b, columns, type), type, self.b.depth)
        if self.interleaves(access):
            vectors = [access.row(0).load_vector(start, 1, lanes) for start, lanes in self.block(self.height)]
            vectors += ["zeroinitializer"] * (height - len(vectors))
            return Tile(deinterleave(self.b, vectors, type), type, self.b.depth)
        rows = [
            access.row(row).load_vector(row * row_stride, lane_stride, self.lanes) for row in range(height)
        ]
        self.fetch_ahead(op, access, height)
        self.fetch_next_panel(op)
        return Tile(rows, type, self.b.depth)

    def crosses(self, access: RowAccess) -> bool:
        """Whether an access is contiguous along the rows of a square tile, not its lanes: it is
        transposed.
        """
        return access.has_contiguous_rows and access.lane_stride > 1 and self.height == self.lanes.width

    def interleaves(self, access: RowAccess) -> bool:
        """Whether the rows of the tile are interleaved in memory: the tile is one contiguous block."""
        return access.has_contiguous_rows and 1 < access.lane_stride == self.height <= INTERLEAVED

    def block(self, height: int) -> Iterator[tuple[int, Lanes]]:
        """The vectors of an interleaved block of so many rows, with their starts, in elements."""
        size, width = height * self.lanes.active, self.lanes.width
        for start in range(0, size, width):
            yield start, Lanes(width, min(width, size - start))

    def store(self, op: StoreOp) -> None:
        access = self.access(op)
        row_stride, lane_stride = access.row_stride, access.lane_stride
        value, lanes = self.values[op.value], self.lanes
        height = max(self.height if access.has_rows else 1, len(value.rows))
        if lanes.width == 1 or (not access.has_lanes and not value.type.width):
            for row in range(height):
                access.row(row).store(self.row(value, row), row * row_stride)
            return
        rows = [self.row(value, row, lanes.width) for row in range(height)]
        past = op.nontemporal is not None and fills_lines(op, self.schedule)
        if self.crosses(access):
            columns = transpose(self.b, rows, vector(access.type, lanes.width))
            for lane, column in enumerate(columns[: lanes.active]):
                access.row(0).store_vector(column, lane * lane_stride, 1, Lanes(len(rows), len(rows)), past)
            return
        if self.interleaves(access):
            vectors = interleave(self.b, rows, vector(access.type, lanes.width))
            for wide, (start, part) in zip(vectors, self.block(self.height), strict=False):
                access.row(0).store_vector(wide, start, 1, part)
            return
        group = stores_side_by_side(op)
        if 1 < lane_stride == len(group) <= INTERLEAVED:
            if ends_group(op, group):
                self.store_together(group, access)
            return
        for row, wide in enumerate(rows):
            access.row(row).store_vector(wide, row * row_stride, lane_stride, lanes, past)

    def store_together(self, group: Sequence[StoreOp], access: RowAccess) -> None:
        """Stores all elements of stores that fill each other's gaps."""
        tiles, type = [self.values[other.value] for other in group], vector(access.type, self.lanes.width)
        first = self.access(group[0])
        for row in range(max(self.height if access.has_rows else 1, *(len(tile.rows) for tile in tiles))):
            values = [self.row(tile, row, self.lanes.width) for tile in tiles]
            for wide, (start, part) in zip(
                interleave(self.b, values, type), self.block(len(group)), strict=False
            ):
                first.row(row).store_vector(wide, row * access.row_stride + start, 1, part)

    def fetch_ahead(self, op: LoadOp, access: RowAccess, height: int, each: int = 1) -> None:
        """Prefetches the first elements that the next point of a group, or the next tile, loads: so many
        neighbours in each lane.
        """
        lanes = Lanes(each * self.lanes.width, each * self.lanes.active)
        if access.lane_stride != each:
            return
        found = [(self.ahead[op], ALL_LEVELS, False)] if op in self.ahead else []
        if op in self.rows_ahead:
            rows = self.rows_ahead[op]
            # Behind a prefetch LLVM would load again what several sums read.
            found.append((rows.distance(height, self.rows_apart), SECOND_LEVEL, rows.are_shared))
        for distance, levels, last in found:
            for row in range(height):
                access.row(row).prefetch(row * access.row_stride + distance, lanes, levels, last=last)

    def fetch_next_rows(self, op: LoadOp, access: RowAccess, height: int) -> None:
        """Prefetches what the next tile loads, once for some neighbouring points of a loop."""
        found = self.next_rows.get(op)
        if found is not None and not self.positions[found.variable].offset:
            for row in range(height):
                access.row(row).prefetch(row * access.row_stride + found.distance, Lanes(), SECOND_LEVEL)

    def fetch_next_panel(self, op: LoadOp) -> None:
        """Prefetches a byte of the next panel, once for neighbouring points of a loop that share a line."""
        found = self.next_panels.get(op)
        if found is not None and not self.positions[found.variable].offset % found.apart:
            self.env.access(op.node, found.address, BYTE).prefetch(0, Lanes(), SECOND_LEVEL)

    def fetch_next_blocks(self, op: LoadOp) -> None:
        """Prefetches parts of the next block of a sum, in some steps of it."""
        ahead = next((found for found in self.next_blocks.values() if found.first is op), None)
        if ahead is None:
            return
        at = self.positions[ahead.variable]
        for block in ahead.blocks:
            if not at.offset % block.apart:
                rest = "0" if at.name is None else self.b.emit(f"urem i64 {at.name}, {block.apart}")
                branch = self.b.open_branch(self.b.emit(f"icmp eq i64 {rest}, 0"))
                access = self.env.access(block.node, block.address, BYTE)
                access.prefetch(0, Lanes(block.bytes, block.bytes), SECOND_LEVEL)
                self.b.close_branch(branch)

    def begin_tile(self, op: ReduceOp) -> None:
        """Prepares what a sum prefetches of its next block."""
        if op in self.next_blocks:
            self.next_blocks[op].begin_tile(self.b, self.positions)

    def fetch_results(self, op: ReduceOp) -> None:
        """Prefetches the cells that are read and stored after a reduction, where their loops are open."""
        for found in self.results_ahead.get(op, ()):
            if all(name in self.positions for name, _ in self.placement.addresses[found].terms):
                access, how = self.access(found), TO_WRITE if isinstance(found, StoreOp) else SECOND_LEVEL
                aligned = alignment_in_line(found, self.schedule)
                for row in range(self.height):
                    access.row(row).prefetch(row * access.row_stride, self.lanes, how, aligned)

    def row(self, tile: Tile, row: int, width: int = 0) -> str:
        """One row of a value; as a vector if `width` is not zero."""
        value = tile.rows[row] if len(tile.rows) > 1 else tile.rows[0]
        if width and not tile.type.width:
            return self.b.splat(value, tile.type, width, tile.depth)
        return value

    def scalar(self, op: Operation) -> Tile:
        operands = [self.values[operand] for operand in op.operands]
        height = max([len(operand.rows) for operand in operands])
        width = max([operand.type.width for operand in operands])
        type = vector(operands[0].type, width)
        result = vector(value_type(op.results[0].type), width)
        if isinstance(op, arith.SelectOp) and is_foreseen(op.cond) and not operands[0].type.width:
            return self.branch(operands, height, result)
        rows = [
            emit_operation(self.b, op, [self.row(o, row, width) for o in operands], type, result)
            for row in range(height)
        ]
        return Tile(rows, result, self.b.depth)

    def branch(self, operands: Sequence[Tile], height: int, type: ValueType) -> Tile:
        """Selects all lanes of a row by one condition: a store of what it leaves as it was would be one under
        a mask, from which what is loaded next waits for memory, and which many processors emulate.
        """
        rows: list[str] = []
        for row in range(height):
            condition, *values = operands
            yes, no = (self.row(value, row, type.width) for value in values)
            rows.append(select(self.b, self.row(condition, row), yes, no, type, one=True))
        return Tile(rows, type, self.b.depth)

    def index(self, op: IndexOp) -> Tile:
        address = self.placement.addresses[op]
        total, constant, depth = linear_value(self.b, address, self.positions)
        row_stride = self.rows_apart * address.stride(self.row_variable)
        lane_stride = address.stride(self.lane_variable)
        width = self.lanes.width if lane_stride and self.lanes.width > 1 else 0
        is_short = width and has_few_bits(op)
        type = vector(I32 if is_short else I64, width)
        result = vector(value_type(op.result.type), width)
        if is_short and total != "0":
            total = self.b.emit_at(depth, f"trunc i64 {total} to i32")
        rows: list[str] = []
        for row in range(self.height if row_stride else 1):
            first = constant + row * row_stride
            if width:
                element = vector(type, 0)
                base = self.b.splat(total, element, width, depth)
                steps = ", ".join([f"{element.text} {first + lane * lane_stride}" for lane in range(width)])
                number = self.b.emit(f"add {type.text} {base}, <{steps}>")
            else:
                number = self.b.emit(f"add i64 {total}, {first}")
            rows.append(from_index(self.b, number, type, result))
        return Tile(rows, result, self.b.depth)

    def position(self, op: PositionOp) -> None:
        """Sets the position of each number of a tile, or 0 where it is none, and whether it is one."""
        number = self.values[op.number]
        wide = vector(I64, number.type.width)
        found = [emit_position(self.b, row, number.type, wide, op.size.data) for row in number.rows]
        depth = self.b.depth
        self.values[op.position] = Tile([position for position, _ in found], wide, depth)
        self.values[op.inside] = Tile([inside for _, inside in found], vector(BIT, wide.width), depth)


def has_few_bits(op: IndexOp) -> bool:
    """Whether an index surely is one of 32 bits, also in lanes that stand for no point: vectors have more of
    these, and processors without AVX-512 convert only these to floats.
    """
    extremes = op.index.extremes(scope_sizes(op))
    return extremes is not None and max(map(abs, extremes)) < 2**30


def is_foreseen(condition: SSAValue) -> bool:
    """Whether a condition nearly always holds: that positions are inside of an axis."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        return is_foreseen(op.lhs) and is_foreseen(op.rhs)
    return isinstance(op, PositionOp)


@dataclass(frozen=True, slots=True)
class RowAccess:
    """The accesses of a tile: one for all rows, or one for each, with strides along rows and lanes."""

    rows: list[TileAccess]
    row_stride: int
    lane_stride: int

    @property
    def type(self) -> ValueType:
        return self.rows[0].type

    @property
    def has_rows(self) -> bool:
        return self.row_stride != 0 or len(self.rows) > 1

    @property
    def has_contiguous_rows(self) -> bool:
        """The rows lie beside each other, and in the same way in every lane."""
        return self.row_stride == 1 and len(self.rows) == 1 and not self.rows[0].scattered

    @property
    def has_lanes(self) -> bool:
        return self.lane_stride != 0 or bool(self.rows[0].scattered)

    def row(self, row: int) -> TileAccess:
        return self.rows[row] if len(self.rows) > 1 else self.rows[0]
