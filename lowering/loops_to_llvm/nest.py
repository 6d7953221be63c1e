"""A nest as loops over register tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, Schedule, StoreOp, element_type
from ocannl.lowering.loops_to_llvm.builder import FunctionBuilder, Position
from ocannl.lowering.loops_to_llvm.instructions import emit_scalar
from ocannl.lowering.loops_to_llvm.memory import ElementAccess
from ocannl.lowering.loops_to_llvm.placement import Level, Placement, place
from ocannl.lowering.loops_to_llvm.tile import Lanes, Segment, Tile, segments
from ocannl.lowering.loops_to_llvm.types import ValueType, literal, value_type, vector


class NestEmitter:
    """Emits one nest. `positions` hold the static indices and, while loops are open, their variables."""

    def __init__(
        self,
        b: FunctionBuilder,
        nest: NestOp,
        pointers: Mapping[SSAValue, str],
        positions: dict[str, Position],
    ) -> None:
        schedule = nest.schedule.data if nest.schedule is not None else Schedule()
        self.b = b
        self.pointers = pointers
        self.positions = positions
        self.placement: Placement = place(nest, schedule)
        self.row_variable, self.row_extent = schedule.rows or (None, 1)
        self.lane_variable, self.lane_extent = schedule.lanes or (None, 1)
        self.height = 1
        self.lanes = Lanes()
        self.values: dict[SSAValue, Tile] = {}

    def emit(self) -> None:
        if all(level.size for level in self.placement.levels):
            self.emit_ops(self.placement.root)
            self.emit_levels(self.placement.levels)

    def emit_levels(self, levels: Sequence[Level]) -> None:
        if levels:
            level = levels[0]
            for segment in segments(level.size, self.extent(level.variable)):
                self.enter(level, segment, (), lambda _: self.emit_levels(levels[1:]) or ())

    def extent(self, variable: str) -> int:
        """How many points of a variable are in one tile."""
        if variable == self.row_variable:
            return self.row_extent
        return self.lane_extent if variable == self.lane_variable else 1

    def enter(
        self,
        level: Level,
        segment: Segment,
        carried: Sequence[tuple[ValueType, str]],
        body: Callable[[Sequence[str]], Sequence[str]],
    ) -> Sequence[str]:
        """Runs `body` on every step of a segment, on the carried values; returns their last ones."""
        self.set_tile(level.variable, segment.extent)
        if segment.count == 1:
            self.positions[level.variable] = Position(None, segment.start)
            self.emit_ops(level.ops)
            return body([value for _, value in carried])
        initial = [(type.text, value) for type, value in carried]
        loop = self.b.open_loop(segment.start, segment.stop, segment.extent, initial)
        self.positions[level.variable] = Position(loop.index, 0, self.b.depth)
        self.emit_ops(level.ops)
        results = body(loop.phis)
        self.b.close_loop(loop, results)
        return results

    def set_tile(self, variable: str, extent: int) -> None:
        if variable == self.row_variable:
            self.height = extent
        elif variable == self.lane_variable:
            self.lanes = Lanes.of(extent)

    def emit_ops(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            match op:
                case LoadOp():
                    self.values[op.result] = self.load(op)
                case StoreOp():
                    self.store(op)
                case ReduceOp():
                    self.values[op.result] = self.reduce(op)
                case IndexOp():
                    self.values[op.result] = self.index(op)
                case arith.ConstantOp():
                    self.values[op.result] = Tile([literal(op.value)], value_type(op.result.type), 0)
                case _:
                    self.values[op.results[0]] = self.scalar(op)

    def access(self, op: LoadOp | StoreOp) -> tuple[ElementAccess, int, int]:
        """The places that an access of the tile has, and its strides along the rows and the lanes."""
        address = self.placement.addresses[op]
        element = value_type(element_type(op.node))
        access = ElementAccess(self.b, self.pointers[op.node], address, self.positions, element)
        return access, address.stride(self.row_variable), address.stride(self.lane_variable)

    def load(self, op: LoadOp) -> Tile:
        access, row_stride, lane_stride = self.access(op)
        height = self.height if row_stride else 1
        if lane_stride == 0 or self.lanes.width == 1:
            rows = [access.load(row * row_stride) for row in range(height)]
            return Tile(rows, access.type, self.b.depth)
        rows = [access.load_vector(row * row_stride, lane_stride, self.lanes) for row in range(height)]
        return Tile(rows, vector(access.type, self.lanes.width), self.b.depth)

    def store(self, op: StoreOp) -> None:
        access, row_stride, lane_stride = self.access(op)
        value = self.values[op.value]
        for row in range(max(self.height if row_stride else 1, len(value.rows))):
            if self.lanes.width == 1 or (lane_stride == 0 and not value.type.width):
                access.store(self.row(value, row), row * row_stride)
            else:
                wide = self.row(value, row, self.lanes.width)
                access.store_vector(wide, row * row_stride, lane_stride, self.lanes)

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
        rows = [
            emit_scalar(self.b, op, [self.row(o, row, width) for o in operands], type, result)
            for row in range(height)
        ]
        return Tile(rows, result, self.b.depth)

    def index(self, op: IndexOp) -> Tile:
        raise AssertionError

    def reduce(self, op: ReduceOp) -> Tile:
        raise AssertionError
