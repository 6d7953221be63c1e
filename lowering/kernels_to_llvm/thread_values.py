"""The values of a thread: its registers, and its loads and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import Address, flatten
from ocannl.dialects.index.linear import POSITION, Linear, Map
from ocannl.dialects.index.memref import is_ring, is_swizzled, loaded_type, memref_shape
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.loops import IndexOp, LoadOp, PositionOp, StoreOp
from ocannl.lowering.kernels.registers import (
    Point,
    Variables,
    is_aligned,
    key,
    names_of,
    points,
    register_variables,
)
from ocannl.lowering.kernels_to_llvm.swizzle import Swizzle
from ocannl.lowering.kernels_to_llvm.values import Registers
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import from_index, linear_value
from ocannl.lowering.llvm.instructions import emit_position
from ocannl.lowering.llvm.memory import ElementAccess, Found
from ocannl.lowering.llvm.operations import emit_operation
from ocannl.lowering.llvm.types import I64, value_type, vector

# The bytes of an access to memory that is a vector.
VECTORS = (4, 8, VECTOR_BYTES)
# The variable in addresses that stands for the buffer of a ring.
SLOT = "slot$"


class ThreadValues:
    """The registers of a thread's values, and accesses to memory at points of the register variables.

    Attributes:
        pointers: to nodes and shared arrays.
        positions: of static indices and variables.
        over: the register variables that each value depends on.
        fixed: register variables that have one value in the code at hand.
        thread: the number of the thread in its block, an `i32`.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        launch: LaunchOp,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
    ) -> None:
        self.b = b
        self.launch = launch
        self.pointers = pointers
        self.positions = positions
        self.sizes = dict(launch.registers.data)
        self.positions.update((name, Position(None, 0)) for name in self.sizes)
        self.over: dict[SSAValue, Variables] = register_variables(launch)
        self.values: dict[SSAValue, Registers] = {}
        self.fixed: dict[str, int] = {}
        self.thread = ""

    def points(self, over: Variables) -> list[dict[str, int]]:
        """The points of register variables, those fixed at one value."""
        free = tuple(name for name in over if name not in self.fixed)
        return [{**self.fixed, **point} for point in points(free, self.sizes)]

    def define(self, value: SSAValue, names: Sequence[str]) -> None:
        """Names the registers of a value, in the order of its points."""
        over = self.over[value]
        keys = [key(over, point) for point in self.points(over)]
        self.values[value] = Registers(over, dict(zip(keys, names, strict=True)), value_type(value.type))

    def scalar(self, op: Operation) -> None:
        operands = [self.values[operand] for operand in op.operands]
        type, result = operands[0].type, value_type(op.results[0].type)
        self.define(
            op.results[0],
            [
                emit_operation(self.b, op, [operand.at(point) for operand in operands], type, result)
                for point in self.points(self.over[op.results[0]])
            ],
        )

    def index(self, op: IndexOp) -> None:
        address, type = Address(op.index.terms, op.index.constant), value_type(op.result.type)
        total, constant, _ = linear_value(self.b, address, self.positions)
        names: list[str] = []
        for point in self.points(self.over[op.result]):
            number = self.b.emit(f"add i64 {total}, {constant + self.offset(address, point)}")
            names.append(from_index(self.b, number, I64, type))
        self.define(op.result, names)

    def offset(self, address: Address, point: Point) -> int:
        """The offset of a point, in elements, from that where register variables that are not fixed are 0."""
        return sum(address.stride(name) * value for name, value in point.items() if name not in self.fixed)

    # Memory.

    def access(self, array: SSAValue, indices: Map) -> ElementAccess:
        address, found = self.place(array, indices)
        return self.element(array, self.pointers[array], address, found)

    def accesses(self, op: LoadOp | StoreOp) -> PointAccesses:
        return PointAccesses(self, op, *self.place(op.node, op.indices.data))

    def place(self, array: SSAValue, indices: Map) -> tuple[Address, dict[str, Found]]:
        """The address of an element, and the slot of a ring, a variable of it that is found at run time."""
        if not is_ring(array):
            return flatten(array, indices), {}
        first, rest = indices[0], indices[1:]
        count = memref_shape(array)[0]
        total, constant, depth = linear_value(self.b, Address(first.terms, first.constant), self.positions)
        if total == "0":
            return flatten(array, (Linear((), constant % count), *rest)), {}
        if constant:
            total = self.b.emit_at(depth, f"add i64 {total}, {constant}")
        number = self.b.emit_at(depth, f"trunc i64 {total} to i32")
        slot = self.b.emit_at(depth, f"urem i32 {number}, {count}")
        slot = self.b.emit_at(depth, f"zext i32 {slot} to i64")
        return flatten(array, (Linear.var(SLOT), *rest)), {SLOT: Found(slot, depth)}

    def element(
        self, array: SSAValue, pointer: str, address: Address, found: Mapping[str, Found]
    ) -> ElementAccess:
        """The access to an array at an address, from a pointer into it."""
        type = value_type(loaded_type(array))
        return ElementAccess(self.b, pointer, address, self.positions, type, found, layout_of(array))

    def load(self, op: LoadOp) -> None:
        accesses, over = self.accesses(op), self.over[op.result]
        width = self.vector_width(accesses, over)
        wide = vector(value_type(op.result.type), width)
        names: list[str] = []
        for point in self.points(over):
            if width == 1:
                names.append(accesses.at(point).load(self.offset(accesses.address, point)))
            elif point[over[-1]] == 0:
                whole = accesses.at(point).load_whole(width, self.offset(accesses.address, point))
                names += [self.b.emit(f"extractelement {wide.text} {whole}, i64 {k}") for k in range(width)]
        self.define(op.result, names)

    def stored_over(self, op: StoreOp) -> Variables:
        """The register variables that what is stored, or where, depends on."""
        moving = {name for operand in op.operands for name in self.over.get(operand, ())} | names_of(op)
        return tuple(name for name in self.sizes if name in moving)

    def store(self, op: StoreOp) -> None:
        accesses, value, over = self.accesses(op), self.values[op.value], self.stored_over(op)
        width = self.vector_width(accesses, over)
        wide = vector(value.type, width)
        whole = "poison"
        for point in self.points(over):
            offset = self.offset(accesses.address, point)
            if width == 1:
                accesses.at(point).store(value.at(point), offset)
                continue
            lane = point[over[-1]]
            whole = self.b.emit(
                f"insertelement {wide.text} {whole if lane else 'poison'}, {value.type.element} "
                f"{value.at(point)}, i64 {lane}"
            )
            if lane == width - 1:
                accesses.at(point).store_whole(whole, width, offset - lane)

    def position(self, op: PositionOp) -> None:
        """Defines the position that a number is, 0 if it is out of range, and whether it is in range."""
        number, here = self.values[op.number], self.points(self.over[op.position])
        found = [emit_position(self.b, number.at(p), number.type, I64, op.size.data) for p in here]
        self.define(op.position, [position for position, _ in found])
        self.define(op.inside, [inside for _, inside in found])

    def vector_width(self, accesses: PointAccesses, over: Variables) -> int:
        """The elements along the last register variable that one aligned access takes; 1 if only
        one can be.
        """
        address = accesses.address
        if not over or over[-1] in self.fixed or over[-1] in accesses.over or address.stride(over[-1]) != 1:
            return 1
        width, bytes = self.sizes[over[-1]], value_type(loaded_type(accesses.op.node)).bytes
        if width < 2 or width * bytes not in VECTORS or not is_aligned(accesses.op.node):
            return 1
        constant = address.constant
        for name, coefficient in address.terms:
            if name in self.positions:
                constant += coefficient * self.positions[name].offset
        steps = [coefficient for name, coefficient in address.terms if name != over[-1]]
        return width if all(step % width == 0 for step in (*steps, constant)) else 1


def layout_of(array: SSAValue) -> Swizzle | None:
    """The layout of an array in memory, None for row-major order."""
    return Swizzle.of(array) if is_swizzled(array) else None


class PointAccesses:
    """The accesses of a load or store, one for each point of the register variables.

    Attributes:
        address: where they are, in the variables of the kernel.
        over: the register variables that the positions found at run time depend on.
    """

    def __init__(
        self, thread: ThreadValues, op: LoadOp | StoreOp, address: Address, slot: Mapping[str, Found]
    ) -> None:
        self.thread, self.op, self.address, self.slot = thread, op, address, slot
        used = {name for position in op.positions for name in thread.over[position]}
        self.over = tuple(name for name in thread.sizes if name in used)
        self.known: dict[tuple[int, ...], ElementAccess] = {}

    def at(self, point: Point) -> ElementAccess:
        """The access at a point, from the place at which the other register variables are zero."""
        place = key(self.over, point)
        if place not in self.known:
            thread, op = self.thread, self.op
            found = {
                **self.slot,
                **{
                    f"{POSITION}{k}": Found(thread.values[position].at(point), thread.b.depth)
                    for k, position in enumerate(op.positions)
                },
            }
            self.known[place] = thread.element(op.node, thread.pointers[op.node], self.address, found)
        return self.known[place]
