"""The code of one thread of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Space, SpaceAttr
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
)
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import MmaOp, WaitProductsOp
from ocannl.dialects.kernel.own import OwnOp, goes_through_registers
from ocannl.dialects.kernel.point import Numbered, PointOp
from ocannl.dialects.loops import IndexOp, LoadOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.lowering.kernels.registers import (
    Point,
    Variables,
    key,
    last_step,
    names_of,
    needs_all_threads,
    points,
)
from ocannl.lowering.kernels_to_llvm.numbers import holds, point_of, variables
from ocannl.lowering.kernels_to_llvm.thread_values import ThreadValues
from ocannl.lowering.llvm.accumulators import combine, neutral
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.memory import ElementAccess
from ocannl.lowering.llvm.types import ValueType, literal, value_type, vector

# Innermost loops that are no longer have no jumps.
UNROLLED = 4


class ThreadEmitter(ThreadValues):
    """Emits the operations of a thread: control flow, reductions and copies; barriers are a target's."""

    # Reductions with nothing but loads and scalars inside have no jumps if they are no longer.
    unrolled = UNROLLED

    def __init__(
        self,
        b: FunctionBuilder,
        launch: LaunchOp,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
    ) -> None:
        super().__init__(b, launch, pointers, positions)
        self.steps = {op: last_step(op) for op in launch.body.walk() if isinstance(op, ReduceOp)}
        self.in_steps = {step for step in self.steps.values() if step is not None}
        # How often loops without jumps write the code at hand.
        self.repeated = 1

    def emit_ops(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            if op not in self.in_steps:
                self.emit_op(op)

    def emit_op(self, op: Operation) -> None:
        self.b.at(op)
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
            case IfOp():
                self.branch(op)
            case PointOp():
                self.point(op)
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
            case WaitProductsOp():
                self.wait_products(op)
            case RolesOp():
                self.run_roles(op)
            case FillOp():
                self.fill_stage(op)
            case AwaitOp():
                self.wait_for_stage(op)
            case ReleaseOp():
                self.release_stage(op)
            case MmaOp():
                zeros = ["0.0"] * len(self.points(self.over[op.result]))
                self.define(op.result, self.multiply_fragments(op, zeros))
            case SharedOp() | OwnOp() | YieldOp():
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

    def run_roles(self, op: RolesOp) -> None:
        raise AssertionError("roles of threads are the target's")

    def fill_stage(self, op: FillOp) -> None:
        raise AssertionError("stages are the target's")

    def wait_for_stage(self, op: AwaitOp) -> None:
        raise AssertionError("stages are the target's")

    def release_stage(self, op: ReleaseOp) -> None:
        raise AssertionError("stages are the target's")

    def wait_products(self, op: WaitProductsOp) -> None:
        """Waits for async products, where a target has such."""

    # Control.

    def where(self, op: WhereOp) -> None:
        """Runs the body where the bounds hold: once for each point of the register variables in them."""
        for point in points(self.bounded_registers(op), self.sizes):
            self.at(point, partial(self.guarded, op))

    def guarded(self, op: WhereOp) -> None:
        self.in_bounds(op.where.data, partial(self.emit_ops, op.body.block.ops))

    def in_bounds(self, bounds: Sequence[Bound], body: Callable[[], None]) -> None:
        """Emits `body` in a branch that is taken where all bounds hold."""
        branch = self.b.open_branch(holds(self.b, bounds, self.positions))
        body()
        self.b.close_branch(branch)

    def branch(self, op: IfOp) -> None:
        """Runs the body where the condition holds: once for each point of the register variables in it."""
        own = [name for name in self.over[op.condition] if name not in self.fixed]
        for point in points(own, self.sizes):
            self.at(point, partial(self.taken, op))

    def taken(self, op: IfOp) -> None:
        (here,) = self.points(self.over[op.condition])
        branch = self.b.open_branch(self.values[op.condition].at(here))
        self.emit_ops(op.body.block.ops)
        self.b.close_branch(branch)

    def point(self, op: PointOp) -> None:
        """Runs the body at the point of a number: once for each point of the register variables in that."""
        for at in points(self.bounded_registers(op), self.sizes):
            self.at(at, partial(self.at_number, op, partial(self.emit_ops, op.body.block.ops)))

    def at_number(self, op: PointOp, body: Callable[[], None]) -> None:
        """Emits `body` in a branch that is taken where the space has a point with the number."""
        inside, found = point_of(self.b, op.at, self.positions)
        branch = self.b.open_branch(inside)
        self.positions.update(found)
        body()
        for name in found:
            del self.positions[name]
        self.b.close_branch(branch)

    def bounded_registers(self, op: Operation) -> Variables:
        """The register variables in the bounds of an operation, that are not at one value already."""
        names = names_of(op)
        return tuple(name for name in self.sizes if name in names and name not in self.fixed)

    def repeat(self, op: ForOp) -> None:
        # Steps of a pipeline are long.
        is_long = any(isinstance(inner, WaitOp | FillOp | AwaitOp) for inner in op.walk())
        self.loop(op.space.data, partial(self.emit_ops, op.body.block.ops), 1 if is_long else UNROLLED)

    def loop(self, space: Space, emit: Callable[[], None], unrolled: int = UNROLLED) -> None:
        """Runs code at every point of a space in turn."""

        def body(_: Sequence[str]) -> Sequence[str]:
            emit()
            return ()

        if all(size for _, size in space):
            self.run(space, (), "", body, unrolled)

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

    def without_jumps(
        self, space: SpaceAttr, carried: Sequence[str], body: Callable[[Sequence[str]], Sequence[str]]
    ) -> Sequence[str]:
        """Runs the body at every point of a space, written so often."""
        count = math.prod(size for _, size in space.data)
        self.repeated *= count
        for point in points(space.names, dict(space.data)):
            self.positions.update((name, Position(None, value)) for name, value in point.items())
            carried = body(carried)
        self.repeated //= count
        return carried

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
        if goes_through_registers(op):
            values = self.without_jumps(op.space, values, partial(self.body, op, type))
            results.update(zip(keys, values, strict=True))
            return
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
        count = math.prod(size for _, size in op.space.data) // op.by_threads
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
        space = (*others, (last, size // op.by_threads))
        outer, inner = space[0][0], math.prod(size for _, size in space[1:])
        copier = self.copier(op)
        if threads % inner == 0:
            # Rounds differ in the first variable only.
            found = variables(self.b, copier, ((outer, threads // inner), *space[1:]))
            at = found[outer]
            found[outer] = Position(at.name, at.offset + k * (threads // inner), at.depth)
        else:
            number = self.b.emit(f"add i32 {copier}, {k * threads}") if k else copier
            found = variables(self.b, number, space)
        if op.by_threads > 1:
            at = found[last]
            name = at.name and self.b.emit_at(at.depth, f"mul i64 {at.name}, {op.by_threads}")
            found[last] = Position(name, at.offset * op.by_threads, at.depth)
        return found

    def copier(self, op: CopyOp) -> str:
        """The number of the part that a thread takes of those of a round, an `i32`."""
        return self.thread

    def transfer(self, op: CopyOp, rounds: Sequence[dict[str, Position]]) -> None:
        """Copies what a thread takes in some rounds; all loads come before the stores."""
        loaded: list[str] = []
        for positions in rounds:
            self.positions.update(positions)
            loaded.append(self.copy_load(op))
        for positions, value in zip(rounds, loaded, strict=True):
            self.positions.update(positions)
            self.copy_target(op).store_whole(value, op.by_threads)

    def copy_target(self, op: CopyOp) -> ElementAccess:
        return self.access(op.target, op.target_map.data)

    def copy_source(self, op: CopyOp) -> tuple[ElementAccess, str]:
        """The access that a thread reads, at the start of the array where a bound does not hold; and an `i1`,
        whether all hold.
        """
        at_point = "true" if op.at is None else self.move_to(op.at)
        access = self.access(op.source, op.source_map.data)
        if op.at is None and not op.bounds:
            return access, "true"
        inside = holds(self.b, op.bounds, self.positions)
        if op.at is not None:
            inside = self.b.emit(f"and i1 {inside}, {at_point}")
        pointer = self.b.emit(f"select i1 {inside}, ptr {access.at(0)}, ptr {self.pointers[op.source]}")
        return self.element(op.source, pointer, Address((), 0), {}), inside

    def move_to(self, at: Numbered) -> str:
        """Gives variables the values of a point; returns an `i1`, whether there is such a point."""
        inside, found = point_of(self.b, at, self.positions)
        self.positions.update(found)
        return inside

    def copy_load(self, op: CopyOp) -> str:
        """Loads the elements that a thread copies at a time, or zeros where a bound does not hold."""
        access, inside = self.copy_source(op)
        value = access.load_whole(op.by_threads)
        if inside == "true":
            return value
        type = access.type.text if op.by_threads == 1 else vector(access.type, op.by_threads).text
        return self.b.emit(f"select i1 {inside}, {type} {value}, {type} zeroinitializer")
