"""The code of one thread of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import Address, flatten
from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import element_type, is_ring, memref_shape
from ocannl.dialects.kernel import BarrierOp, CombineOp, CommitOp, CopyOp, ForOp, WaitOp, WhereOp
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.loops import IndexOp, LoadOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.values import POSITION
from ocannl.lowering.kernels.registers import (
    Point,
    Variables,
    is_aligned,
    key,
    last_step,
    names_of,
    needs_all_threads,
    points,
    register_variables,
)
from ocannl.lowering.kernels_to_llvm.numbers import holds, variables
from ocannl.lowering.kernels_to_llvm.values import Registers
from ocannl.lowering.llvm.accumulators import combine, neutral
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import from_i64, linear_value
from ocannl.lowering.llvm.instructions import emit_position, emit_scalar
from ocannl.lowering.llvm.memory import ElementAccess, Found
from ocannl.lowering.llvm.types import I64, ValueType, literal, value_type, vector

# Innermost loops that are no longer have no jumps.
UNROLLED = 4
# The bytes of an access to memory that is a vector.
VECTORS = (4, 8, VECTOR_BYTES)
# What stands for the array of a ring in addresses.
SLOT = "slot$"


class ThreadEmitter:
    """Emits what a thread does. `positions` hold static indices and variables, `thread` is its number, and
    `repeated` how often loops without jumps write the code at hand.
    """

    # Reductions with nothing but loads and scalars inside have no jumps if they are no longer.
    unrolled = UNROLLED

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
        self.steps = {op: last_step(op) for op in launch.body.walk() if isinstance(op, ReduceOp)}
        self.in_steps = {step for step in self.steps.values() if step is not None}
        self.values: dict[SSAValue, Registers] = {}
        self.fixed: dict[str, int] = {}
        self.repeated = 1
        self.thread = ""

    def emit_ops(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            if op not in self.in_steps:
                self.emit_op(op)

    def emit_op(self, op: Operation) -> None:
        match op:
            case LoadOp():
                self.load(op)
            case StoreOp():
                self.store(op)
            case ReduceOp():
                self.define(op.result, self.accumulate(op))
            case IndexOp():
                self.index(op)
            case PositionOp():
                self.position(op)
            case WhereOp():
                self.where(op)
            case ForOp():
                self.repeat(op)
            case CopyOp():
                self.copy(op)
            case BarrierOp():
                self.barrier()
            case CombineOp():
                self.combine(op)
            case CommitOp():
                self.commit()
            case WaitOp():
                self.wait(op)
            case MmaOp():
                zeros = ["0.0"] * len(self.points(self.over[op.result]))
                self.define(op.result, self.multiply_fragments(op, zeros))
            case SharedOp() | YieldOp():
                pass
            case arith.ConstantOp():
                self.define(op.result, [literal(op.value)])
            case _:
                self.scalar(op)

    def barrier(self) -> None:
        raise AssertionError("a barrier is the target's")

    def combine(self, op: CombineOp) -> None:
        raise AssertionError("threads are combined by the target")

    def multiply_fragments(self, op: MmaOp, sums: Sequence[str]) -> list[str]:
        """Adds products to the sums, which are in the order of the result's points."""
        raise AssertionError("the registers of a warp are the target's")

    def commit(self) -> None:
        raise AssertionError("groups of copies are the target's")

    def wait(self, op: WaitOp) -> None:
        raise AssertionError("waiting for copies is the target's")

    # Values.

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
                emit_scalar(self.b, op, [operand.at(point) for operand in operands], type, result)
                for point in self.points(self.over[op.results[0]])
            ],
        )

    def index(self, op: IndexOp) -> None:
        address, type = Address(op.index.terms, op.index.constant), value_type(op.result.type)
        total, constant, _ = linear_value(self.b, address, self.positions)
        names: list[str] = []
        for point in self.points(self.over[op.result]):
            number = self.b.emit(f"add i64 {total}, {constant + self.offset(address, point)}")
            names.append(from_i64(self.b, number, I64, type))
        self.define(op.result, names)

    def offset(self, address: Address, point: Point) -> int:
        """How far a point is from where the register variables are zero; the address has the fixed ones."""
        return sum(address.stride(name) * value for name, value in point.items() if name not in self.fixed)

    # Memory.

    def access(self, array: SSAValue, indices: Map) -> ElementAccess:
        address, found = self.place(array, indices)
        return self.element(array, self.pointers[array], address, found)

    def accesses(self, op: LoadOp | StoreOp) -> Accesses:
        return Accesses(self, op, *self.place(op.node, op.indices.data))

    def place(self, array: SSAValue, indices: Map) -> tuple[Address, dict[str, Found]]:
        """The address of an element; that of a ring is in terms of which of its arrays it is."""
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
        """The places of an array at an address from a pointer into it."""
        type = value_type(element_type(array))
        return ElementAccess(self.b, pointer, address, self.positions, type, found)

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

    def store(self, op: StoreOp) -> None:
        accesses, value = self.accesses(op), self.values[op.value]
        moving = {name for operand in op.operands for name in self.over.get(operand, ())} | names_of(op)
        over = tuple(name for name in self.sizes if name in moving)
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
        """The position of a number, or 0 where it is none, and whether it is one."""
        number, here = self.values[op.number], self.points(self.over[op.position])
        found = [emit_position(self.b, number.at(p), number.type, I64, op.size.data) for p in here]
        self.define(op.position, [position for position, _ in found])
        self.define(op.inside, [inside for _, inside in found])

    def vector_width(self, accesses: Accesses, over: Variables) -> int:
        """How many elements along the last register variable are one access: those of an aligned vector."""
        address = accesses.address
        if not over or over[-1] in self.fixed or over[-1] in accesses.over or address.stride(over[-1]) != 1:
            return 1
        width, bytes = self.sizes[over[-1]], value_type(element_type(accesses.op.node)).bytes
        if width < 2 or width * bytes not in VECTORS or not is_aligned(accesses.op.node):
            return 1
        constant = address.constant
        for name, coefficient in address.terms:
            if name in self.positions:
                constant += coefficient * self.positions[name].offset
        steps = [coefficient for name, coefficient in address.terms if name != over[-1]]
        return width if all(step % width == 0 for step in (*steps, constant)) else 1

    # Control.

    def where(self, op: WhereOp) -> None:
        """Runs the body where the bounds hold: once for each point of the register variables in them."""
        for point in points(self.bounded_registers(op), self.sizes):
            self.at(point, partial(self.guarded, op))

    def guarded(self, op: WhereOp) -> None:
        branch = self.b.open_branch(holds(self.b, op.where.data, self.positions))
        self.emit_ops(op.body.block.ops)
        self.b.close_branch(branch)

    def bounded_registers(self, op: Operation) -> Variables:
        """The register variables in the bounds of an operation, that are not at one value already."""
        names = names_of(op)
        return tuple(name for name in self.sizes if name in names and name not in self.fixed)

    def repeat(self, op: ForOp) -> None:
        def body(_: Sequence[str]) -> Sequence[str]:
            self.emit_ops(op.body.block.ops)
            return ()

        if all(size for _, size in op.space.data):
            self.run(op.space.data, (), "", body)

    def at(self, point: Point, body: Callable[[], None]) -> None:
        """Runs the body with register variables fixed at a point."""
        for name, value in point.items():
            self.fixed[name] = value
            self.positions[name] = Position(None, value)
        body()
        for name in point:
            del self.fixed[name]
            self.positions[name] = Position(None, 0)

    def run(
        self,
        space: Space,
        carried: Sequence[str],
        type: str,
        body: Callable[[Sequence[str]], Sequence[str]],
        unrolled: int = UNROLLED,
    ) -> Sequence[str]:
        """Runs the body over a space in turn, on carried values of one type; returns their last ones."""
        if not space:
            return body(carried)
        (name, size), inner = space[0], space[1:]
        if size == 1 or (size <= unrolled and not inner):
            self.repeated *= size
            for value in range(size):
                self.positions[name] = Position(None, value)
                carried = self.run(inner, carried, type, body, unrolled)
            self.repeated //= size
            return carried
        loop = self.b.open_loop(0, size, 1, [(type, value) for value in carried])
        self.positions[name] = Position(loop.index, 0, self.b.depth)
        results = self.run(inner, loop.phis, type, body, unrolled)
        self.b.close_loop(loop, results)
        return results

    # Reductions.

    def accumulate(self, op: ReduceOp, start: Sequence[str] | None = None) -> list[str]:
        """The registers of a reduction, accumulated from `start` on, or from nothing."""
        over, type = self.over[op.result], value_type(op.result.type)
        here = self.points(over)
        values = [neutral(op.accum.data, type)] * len(here) if start is None else list(start)
        if not all(size for _, size in op.space.data):
            return values
        results = dict(zip((key(over, point) for point in here), values, strict=True))
        for point in points(self.bounded_registers(op), self.sizes):
            self.at(point, partial(self.accumulate_part, op, results))
        return [results[key(over, point)] for point in here]

    def accumulate_part(self, op: ReduceOp, results: dict[tuple[int, ...], str]) -> None:
        """Accumulates into the registers at the points that are not fixed."""
        over, type = self.over[op.result], value_type(op.result.type)
        keys = [key(over, point) for point in self.points(over)]
        values = [results[k] for k in keys]
        is_plain = not any(inner.regions or needs_all_threads(inner) for inner in op.body.block.ops)
        unrolled = self.unrolled if is_plain and self.repeated == 1 else UNROLLED
        done = self.run(op.space.data, values, type.text, partial(self.body, op, type), unrolled)
        results.update(zip(keys, done, strict=True))

    def body(self, op: ReduceOp, type: ValueType, values: Sequence[str]) -> Sequence[str]:
        """One point of a reduction's space: the accumulators after it."""
        if op.where is None:
            self.emit_ops(op.body.block.ops)
            return self.step(op, values)
        condition = holds(self.b, op.where.data, self.positions)
        outside = self.b.block
        branch = self.b.open_branch(condition)
        self.emit_ops(op.body.block.ops)
        results = self.step(op, values)
        inside = self.b.block
        self.b.close_branch(branch)
        return [
            self.b.emit(f"phi {type.text} [ {new}, %{inside} ], [ {old}, %{outside} ]")
            for new, old in zip(results, values, strict=True)
        ]

    def step(self, op: ReduceOp, values: Sequence[str]) -> list[str]:
        """The accumulators after the contribution of one point."""
        type, here = value_type(op.result.type), self.points(self.over[op.result])
        match self.steps[op]:
            case ReduceOp() as inner if self.over[inner.result] == self.over[op.result]:
                return self.accumulate(inner, values)
            case ReduceOp() as inner:
                self.define(inner.result, self.accumulate(inner))
            case MmaOp() as product:
                return self.multiply_fragments(product, values)
            case arith.MulfOp() as product:
                return [self.multiply_add(product, point, v) for point, v in zip(here, values, strict=True)]
            case _:
                pass
        yielded = self.values[op.yielded]
        return [
            combine(self.b, op.accum.data, value, yielded.at(point), type)
            for point, value in zip(here, values, strict=True)
        ]

    def multiply_add(self, product: arith.MulfOp, point: Point, value: str) -> str:
        type = value_type(product.result.type)
        x, y = (self.values[operand].at(point) for operand in product.operands)
        arguments = f"{type.text} {x}, {type.text} {y}, {type.text} {value}"
        return self.b.emit(f"call {type.text} @llvm.fmuladd.{type.mangled}({arguments})")

    # Copies.

    def copy(self, op: CopyOp) -> None:
        """Each thread takes every `threads`-th point of the space, or so many neighbours."""
        count = math.prod(size for _, size in op.space.data) // op.by
        threads = self.launch.threads
        self.transfer(op, [self.copy_positions(op, k) for k in range(count // threads)])
        if rest := count % threads:
            branch = self.b.open_branch(self.b.emit(f"icmp ult i32 {self.thread}, {rest}"))
            self.transfer(op, [self.copy_positions(op, count // threads)])
            self.b.close_branch(branch)
        for name in op.space.names:
            del self.positions[name]

    def copy_positions(self, op: CopyOp, k: int) -> dict[str, Position]:
        """The variables at the point that a thread takes in round `k`."""
        threads = self.launch.threads
        *others, (last, size) = op.space.data or (("", 1),)
        space = (*others, (last, size // op.by))
        outer, inner = space[0][0], math.prod(size for _, size in space[1:])
        if threads % inner == 0:
            # Rounds differ in the first variable only.
            found = variables(self.b, self.thread, ((outer, threads // inner), *space[1:]))
            at = found[outer]
            found[outer] = Position(at.name, at.offset + k * (threads // inner), at.depth)
        else:
            number = self.b.emit(f"add i32 {self.thread}, {k * threads}") if k else self.thread
            found = variables(self.b, number, space)
        if op.by > 1:
            at = found[last]
            name = at.name and self.b.emit_at(at.depth, f"mul i64 {at.name}, {op.by}")
            found[last] = Position(name, at.offset * op.by, at.depth)
        return found

    def transfer(self, op: CopyOp, rounds: Sequence[dict[str, Position]]) -> None:
        """Copies what a thread takes in some rounds; all loads come before the stores."""
        loaded: list[str] = []
        for positions in rounds:
            self.positions.update(positions)
            loaded.append(self.copy_load(op))
        for positions, value in zip(rounds, loaded, strict=True):
            self.positions.update(positions)
            self.copy_target(op).store_whole(value, op.by)

    def copy_target(self, op: CopyOp) -> ElementAccess:
        return self.access(op.target, op.target_map.data)

    def copy_source(self, op: CopyOp) -> tuple[ElementAccess, str]:
        """Where a thread reads: the start of the array where a bound does not hold; and whether they do."""
        access = self.access(op.source, op.source_map.data)
        if not op.bounds:
            return access, "true"
        inside = holds(self.b, op.bounds, self.positions)
        pointer = self.b.emit(f"select i1 {inside}, ptr {access.at(0)}, ptr {self.pointers[op.source]}")
        return self.element(op.source, pointer, Address((), 0), {}), inside

    def copy_load(self, op: CopyOp) -> str:
        """The neighbours, or zeros where a bound does not hold."""
        access, inside = self.copy_source(op)
        value = access.load_whole(op.by)
        if inside == "true":
            return value
        type = access.type.text if op.by == 1 else vector(access.type, op.by).text
        return self.b.emit(f"select i1 {inside}, {type} {value}, {type} zeroinitializer")


class Accesses:
    """The places that a load or store has, at all points of the register variables.

    Attributes:
        address: where they are, in the variables of the kernel.
        over: the register variables that the positions found at run time depend on.
    """

    def __init__(
        self, thread: ThreadEmitter, op: LoadOp | StoreOp, address: Address, slot: Mapping[str, Found]
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
