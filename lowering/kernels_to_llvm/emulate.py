"""Kernels as LLVM IR for a CPU that emulates a GPU: loops over the threads of a block between barriers.

A value that is used after its loop is kept in an array with an element for each thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import loaded_type, memref_shape
from ocannl.dialects.kernel import (
    AwaitOp,
    BarrierOp,
    CombineOp,
    CommitOp,
    CopyOp,
    FillOp,
    ForOp,
    ReleaseOp,
    RolesOp,
    WaitOp,
    WhereOp,
    block_reduction,
)
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import MmaOp, WaitProductsOp, async_sum
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.kernel.point import PointOp
from ocannl.dialects.kernel.protocol import way_to
from ocannl.dialects.loops import LoadOp, ReduceOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.kernels.registers import key, needs_all_threads, points
from ocannl.lowering.kernels_to_llvm.checks import HELPERS, READ, READ_LATER, WRITE_LATER, CheckedAccess
from ocannl.lowering.kernels_to_llvm.fragments import emulated, emulated_name
from ocannl.lowering.kernels_to_llvm.numbers import gathered, variables
from ocannl.lowering.kernels_to_llvm.stage_checks import STAGE_HELPERS
from ocannl.lowering.kernels_to_llvm.thread import ThreadEmitter
from ocannl.lowering.kernels_to_llvm.thread_values import layout_of
from ocannl.lowering.kernels_to_llvm.values import Registers
from ocannl.lowering.llvm.accumulators import combine, neutral
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import linear_value
from ocannl.lowering.llvm.memory import ElementAccess, Found
from ocannl.lowering.llvm.range_check import RECORD, text_constant
from ocannl.lowering.llvm.types import I64, ValueType, value_type

# The variable in addresses that stands for the thread whose array is meant.
THREAD = "thread$"


@dataclass(frozen=True, slots=True)
class Emulation:
    """How kernels are emulated.

    Attributes:
        shuffle: if this is a number, threads and blocks run in an order that depends on it.
        check: accesses to memory are checked for bounds, those of nests too, and those of kernels for races.
    """

    shuffle: int | None = None
    check: bool = False


class EmulatedKernel(ThreadEmitter):
    """Emits all blocks and threads of a kernel as one function."""

    def __init__(
        self,
        b: FunctionBuilder,
        launch: LaunchOp,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
        how: Emulation,
        number: int,
    ) -> None:
        super().__init__(b, launch, pointers, positions)
        self.shuffle, self.check = how.shuffle, how.check
        self.number = number
        self.described: dict[SSAValue, str] = {}
        self.allocations: list[str] = []
        self.slots: dict[SSAValue, Registers] = {}
        self.waiting = {op for op in launch.body.walk() if needs_all_threads(op)}
        # Operations that synchronize threads are not fused into the code of one of them.
        self.steps = {op: None if step in self.waiting else step for op, step in self.steps.items()}
        self.in_steps -= self.waiting
        self.index_of_thread = ""
        products = [op for op in launch.body.walk() if isinstance(op, MmaOp) and op.is_async]
        self.groups_of_products = {op.parent_op() for op in products}
        self.sums_of_groups = {async_sum(op) for op in products}
        self.read_later = {operand.owner for op in products for operand in op.operands}
        self.reading = READ
        self.roles = next((op for op in launch.body.block.ops if isinstance(op, RolesOp)), None)
        self.rings: set[SSAValue] = set() if self.roles is None else set(self.roles.rings)
        # How many stages are filled.
        self.filled = ""

    def emit(self) -> None:
        self.b.lines.append(self.allocations)
        for op in self.launch.body.block.ops:
            if isinstance(op, SharedOp):
                self.pointers[op.result] = self.allocate(op.bytes)
            elif isinstance(op, OwnOp):
                self.pointers[op.result] = self.allocate(op.bytes * self.launch.threads)
        self.mark("call void @start(ptr @kernel_start)")
        loop = self.b.open_loop(0, self.launch.blocks, 1)
        block = self.shuffled(loop.index, self.launch.blocks)
        self.mark("call void @start(ptr @block_start)", f"store i64 {block}, ptr @block_number")
        self.positions.update(variables(self.b, self.to_i32(block), self.launch.grid.data))
        self.emit_together(self.launch.body.block.ops)
        self.b.close_loop(loop)

    def allocate(self, size: int) -> str:
        """Memory for the whole function."""
        name = self.b.name()
        self.allocations.append(f"  {name} = alloca [{max(size, 1)} x i8], align {4 * VECTOR_BYTES}")
        return name

    def to_i32(self, number: str) -> str:
        return self.b.emit(f"trunc i64 {number} to i32")

    def shuffled(self, index: str, count: int) -> str:
        """The number of the `index`-th block or thread to run, in an order that is permuted on request."""
        if self.shuffle is None or count == 1:
            return index
        step = 2 * self.shuffle + 3
        while math.gcd(step, count) > 1:
            step += 2 if count % 2 == 0 else 1
        scaled = self.b.emit(f"mul i64 {index}, {step % count}")
        moved = self.b.emit(f"add i64 {scaled}, {(7 * self.shuffle + 5) % count}")
        return self.b.emit(f"urem i64 {moved}, {count}")

    # Synchronized operations.

    def emit_together(self, ops: Iterable[Operation]) -> None:
        """Emits operations of all threads, in phases that end where threads synchronize."""
        phase: list[Operation] = []
        for op in ops:
            if op not in self.waiting:
                phase.append(op)
                continue
            self.emit_phase(phase)
            phase = []
            match op:
                case BarrierOp():
                    self.mark("call void @tick()")
                case CommitOp():
                    self.mark("call void @commit()")
                case WaitOp():
                    self.mark(f"call void @wait(i64 {op.pending.data})")
                case WaitProductsOp():
                    self.mark(f"call void @wait_products(i64 {op.pending.data})")
                case RolesOp():
                    self.take_turns(op)
                case AwaitOp():
                    number = self.stage_of(op)
                    self.fill_until(self.b.emit(f"add i64 {number}, 1"))
                    self.mark(f"call void @await_stage(i64 {number})")
                case ReleaseOp():
                    self.release_stage(op)
                case CombineOp():
                    self.combine_threads(op)
                case MmaOp():
                    self.multiply_threads(op)
                case ReduceOp():
                    self.reduce_together(op)
                case ForOp():
                    self.for_together(op)
                case WhereOp():
                    self.in_bounds(op.where.data, partial(self.emit_together, op.body.block.ops))
                case PointOp():
                    self.at_number(op, partial(self.emit_together, op.body.block.ops))
                case _:
                    raise AssertionError(f"{op.name} waits for other threads")
        self.emit_phase(phase)

    # Roles.

    def take_turns(self, op: RolesOp) -> None:
        """Runs the consumers; where they wait for a stage, the producer goes on before. Where accesses are
        checked it does as soon as it may.
        """
        self.filled = "@filled" if self.check else self.allocate(I64.bytes)
        self.mark("call void @start_stages()")
        self.b.emit_void(f"store i64 0, ptr {self.filled}")
        if self.check:
            self.fill_until(str(min(op.stages, self.count_of_stages)))
        self.emit_together(op.consumer.block.ops)

    @property
    def count_of_stages(self) -> int:
        assert self.roles is not None
        return math.prod(size for _, size in way_to(self.roles.fill).space)

    def stage_of(self, op: AwaitOp | ReleaseOp) -> str:
        """The number of a stage, an `i64`."""
        total, constant, _ = linear_value(self.b, Address(op.stage.terms, op.stage.constant), self.positions)
        return self.b.emit(f"add i64 {total}, {constant}")

    def release_stage(self, op: ReleaseOp) -> None:
        if self.roles is None or not self.check:
            return
        number = self.stage_of(op)
        self.mark(f"call void @release_stage(i64 {number})")
        most = self.b.emit(f"add i64 {number}, {1 + self.roles.stages}")
        is_less = self.b.emit(f"icmp slt i64 {most}, {self.count_of_stages}")
        self.fill_until(self.b.emit(f"select i1 {is_less}, i64 {most}, i64 {self.count_of_stages}"))

    def fill_until(self, count: str) -> None:
        """Runs the producer until so many stages are filled."""
        b, roles = self.b, self.roles
        assert roles is not None
        branch = b.open_branch(b.emit(f"icmp slt i64 {b.emit(f'load i64, ptr {self.filled}')}, {count}"))
        with b.repeated() as stages:
            number = b.emit(f"load i64, ptr {self.filled}")
            outside = dict(self.positions)
            self.positions.update(variables(b, self.to_i32(number), way_to(roles.fill).space))
            self.produce(roles.producer.block.ops)
            self.positions = outside
            following = b.emit(f"add i64 {number}, 1")
            b.emit_void(f"store i64 {following}, ptr {self.filled}")
            stages.until = b.emit(f"icmp sge i64 {following}, {count}")
        b.close_branch(branch)

    def produce(self, ops: Iterable[Operation]) -> None:
        """Fills one stage, whose loops have their variables."""
        for op in ops:
            match op:
                case ForOp() | FillOp():
                    self.produce(op.body.block.ops)
                case PointOp():
                    self.at_number(op, partial(self.produce, op.body.block.ops))
                case _:
                    self.emit_phase([op])

    def mark(self, *instructions: str) -> None:
        """Emits code that advances the clock of race checks, if accesses are checked."""
        if self.check:
            self.b.declarations |= {RECORD, HELPERS}
            if self.roles is not None:
                self.b.declarations.add(STAGE_HELPERS)
            for instruction in instructions:
                self.b.emit_void(instruction)

    def reduce_together(self, op: ReduceOp) -> None:
        """A reduction whose body synchronizes threads: its accumulators are kept in arrays."""
        slots = self.make_slots(op.result)
        self.each_thread(partial(self.fill, slots, neutral(op.accum.data, slots.type)))

        body = partial(self.emit_together, op.body.block.ops)
        if op.where is not None:
            body = partial(self.in_bounds, op.where.data, body)
        self.loop(op.space.data, body)
        if op in self.groups_of_products:
            self.mark("call void @multiplied_group()")
        if op in self.sums_of_groups:
            self.mark("call void @wait_products(i64 0)")

    def for_together(self, op: ForOp) -> None:
        self.loop(op.space.data, partial(self.emit_together, op.body.block.ops))

    def combine_threads(self, op: CombineOp) -> None:
        """In each round the threads take what others had before it; the order is that of the GPU."""
        how = block_reduction(self.launch, op.across.data)
        result, source = self.make_slots(op.result), self.held(op.value)
        accum = op.accum.data
        for at in self.points(self.over[op.result]):
            held, name = source.at(at), result.at(at)
            for mask in how.masks:
                following = self.allocate(self.launch.threads * result.type.bytes)
                self.each_thread(partial(self.exchange, accum, held, following, mask, result.type))
                held = following
            self.each_thread(partial(self.gather, accum, held, name, op, result.type))
        self.mark("call void @tick()")

    def multiply_threads(self, op: MmaOp) -> None:
        """Each thread gets its part of the product, from the arrays with what all have of the operands."""
        type, result, own = op.left.type, self.make_slots(op.result), (op.rows.data, op.columns.data)
        held = (self.held(op.left), self.held(op.right), result)
        self.b.declarations.add(emulated(type, self.b.machine.converted))
        for point in points([name for name in result.over if name not in own], self.sizes):
            arrays = [f"ptr {x.at(p)}" for x, at in zip(held, op.places(point), strict=True) for p in at]
            arguments = ", ".join([*arrays, f"i64 {self.launch.threads}"])
            self.b.emit_void(f"call void {emulated_name(type)}({arguments})")

    def held(self, value: SSAValue) -> Registers:
        """The arrays in which the threads have a value."""
        if value not in self.slots:
            self.each_thread(partial(self.store_slots, self.make_slots(value), self.values[value]))
        return self.slots[value]

    def exchange(self, accum: str, source: str, target: str, mask: int, type: ValueType) -> None:
        other = self.b.emit(f"xor i64 {self.index_of_thread}, {mask}")
        x, y = self.load_slot(source, type), self.load_slot(source, type, other)
        self.store_slot(target, combine(self.b, accum, x, y, type), type)

    def gather(self, accum: str, source: str, target: str, op: CombineOp, type: ValueType) -> None:
        """Accumulates over what lies `step` threads apart."""
        how = block_reduction(self.launch, op.across.data)
        load = partial(self.load_slot, source, type)
        value = gathered(self.b, self.index_of_thread, how, accum, type, load)
        self.store_slot(target, value, type)

    # Loops over threads.

    def emit_phase(self, ops: Sequence[Operation]) -> None:
        """Runs operations in every thread; values from before come from arrays, those used later go there."""
        ops = [op for op in ops if not isinstance(op, SharedOp | OwnOp)]
        if not ops:
            return
        inside = {inner for op in ops for inner in op.walk()}
        before = self.values
        self.values = {value: r for value, r in before.items() if r.is_literal}
        self.each_thread(partial(self.phase, ops, inside))
        self.values = before | {v: r for v, r in self.values.items() if r.is_literal}

    def phase(self, ops: Sequence[Operation], inside: set[Operation]) -> None:
        used = dict.fromkeys(operand for op in ops for inner in op.walk() for operand in inner.operands)
        for value in used:
            if value in self.slots and value.owner not in inside:
                self.define(value, self.load_slots(self.slots[value]))
        self.emit_ops(ops)
        for op in ops:
            if isinstance(op, YieldOp):
                self.finish_step(op)
            for value in op.results:
                is_used_later = any(use.operation not in inside for use in value.uses)
                if is_used_later and op not in self.in_steps and not self.values[value].is_literal:
                    self.store_slots(self.make_slots(value), self.values[value])

    def finish_step(self, op: YieldOp) -> None:
        """Adds a contribution to accumulators that have arrays."""
        reduce = op.parent_op()
        assert isinstance(reduce, ReduceOp)
        slots = self.slots[reduce.result]
        self.define(reduce.result, self.step(reduce, self.load_slots(slots)))
        self.store_slots(slots, self.values[reduce.result])

    def each_thread(self, body: partial[None]) -> None:
        loop = self.b.open_loop(0, self.launch.threads, 1)
        self.index_of_thread = self.shuffled(loop.index, self.launch.threads)
        self.thread = self.to_i32(self.index_of_thread)
        self.positions.update(variables(self.b, self.thread, self.launch.block.data))
        body()
        self.b.close_loop(loop)

    # Checked accesses.

    def load(self, op: LoadOp) -> None:
        self.reading = READ_LATER if op in self.read_later else READ
        super().load(op)
        self.reading = READ

    def copy_target(self, op: CopyOp) -> ElementAccess:
        access = super().copy_target(op)
        if isinstance(access, CheckedAccess) and op.is_async:
            access.write = WRITE_LATER
        return access

    def element(
        self, array: SSAValue, pointer: str, address: Address, found: Mapping[str, Found]
    ) -> ElementAccess:
        if isinstance(array.owner, OwnOp):
            address = Address((*address.terms, (THREAD, math.prod(memref_shape(array)))), address.constant)
            found = {**found, THREAD: Found(self.index_of_thread, self.b.depth)}
        if not self.check:
            return super().element(array, pointer, address, found)
        if array not in self.described:
            self.described[array] = self.describe(array)
        text = f"@text_{self.number}_{list(self.described).index(array)}"
        access = CheckedAccess(
            self.b,
            pointer,
            address,
            self.positions,
            value_type(loaded_type(array)),
            found,
            self.described[array],
            text,
            self.index_of_thread,
            layout_of(array),
        )
        access.read = self.reading
        if array in self.rings:
            access.check = "@check_stage"
        return access

    def describe(self, array: SSAValue) -> str:
        """Declares the cells and the text of an array; returns the arguments of the check."""
        type, count = value_type(loaded_type(array)), math.prod(memref_shape(array))
        if isinstance(array.owner, OwnOp):
            count *= self.launch.threads
        place = f"{self.number}_{len(self.described)}"
        node = array.owner
        name = f"`{node.label.data}`" if isinstance(node, NodeOp) else "shared memory"
        text = f"kernel `{self.launch.label.data}`, {name}"
        self.b.declarations |= {
            f"@cells_{place} = internal global [{count} x [6 x i64]] zeroinitializer",
            text_constant(f"@text_{place}", text),
        }
        start = "@kernel_start" if isinstance(node, NodeOp) else "@block_start"
        return f"ptr {self.pointers[array]}, i64 {type.bytes}, i64 {count}, ptr @cells_{place}, ptr {start}"

    # Arrays.

    def make_slots(self, value: SSAValue) -> Registers:
        if value not in self.slots:
            over, type = self.over[value], value_type(value.type)
            names = {
                key(over, point): self.allocate(self.launch.threads * type.bytes)
                for point in self.points(over)
            }
            self.slots[value] = Registers(over, names, type)
        return self.slots[value]

    def slot(self, array: str, type: ValueType, thread: str | None = None) -> str:
        return self.b.emit(f"getelementptr {type.element}, ptr {array}, i64 {thread or self.index_of_thread}")

    def load_slot(self, array: str, type: ValueType, thread: str | None = None) -> str:
        return self.b.emit(f"load {type.element}, ptr {self.slot(array, type, thread)}")

    def store_slot(self, array: str, value: str, type: ValueType) -> None:
        self.b.emit_void(f"store {type.element} {value}, ptr {self.slot(array, type)}")

    def load_slots(self, slots: Registers) -> list[str]:
        return [self.load_slot(array, slots.type) for array in slots.names.values()]

    def store_slots(self, slots: Registers, values: Registers) -> None:
        for k, array in slots.names.items():
            self.store_slot(array, values.names[k], slots.type)

    def fill(self, slots: Registers, value: str) -> None:
        for array in slots.names.values():
            self.store_slot(array, value, slots.type)
