"""Writes the operations of one thread of a kernel as Metal text.

A value with register variables is an array over them. Operations on it stand in loops over them, which the
Metal compiler unrolls; operations with the same register variables share their loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.memref import element_bytes, loaded_type, memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.kernel import (
    BarrierOp,
    CombineOp,
    CommitOp,
    CopyOp,
    ForOp,
    WaitOp,
    WhereOp,
    block_reduction,
)
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import WaitProductsOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.kernel.point import Numbered, PointOp
from ocannl.dialects.loops import IndexOp, LoadOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.lowering.arena import arena_ranges, disjoint
from ocannl.lowering.c_family.text_lines import INT_VALUES
from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.kernels.registers import Variables, is_aligned, last_step, names_of
from ocannl.lowering.kernels_to_metal.far import far_expression
from ocannl.lowering.kernels_to_metal.scalar import accumulation, expression, shuffled
from ocannl.lowering.kernels_to_metal.text_writer import TextWriter
from ocannl.lowering.kernels_to_metal.types import (
    FLOATS,
    VECTOR_WIDTHS,
    float_literal,
    int_literal,
    literal,
    metal_type,
    vector_type,
)

# Operations with control flow, or that synchronize threads: all others run at each point of the registers.
ASYNCHRONOUS = (CommitOp, WaitOp, WaitProductsOp)
CONTROL = (ReduceOp, WhereOp, IfOp, PointOp, ForOp, CopyOp, BarrierOp, CombineOp, *ASYNCHRONOUS)


class ThreadWriter(TextWriter):
    """Writes the body of a kernel; `arrays` are the names of its nodes."""

    def __init__(self, launch: LaunchOp, arrays: Mapping[SSAValue, str], names: VariableNames) -> None:
        super().__init__(launch, arrays, names)
        self.apart = disjoint(list(arrays), arena_ranges(arrays))
        self.steps = {op: last_step(op) for op in launch.body.walk() if isinstance(op, ReduceOp)}
        self.in_steps = {step for step in self.steps.values() if step is not None}
        self.fence = memory_of_barriers(launch)

    def write(self) -> list[str]:
        """The lines of the body."""
        ops = self.launch.body.block.ops
        for number, op in enumerate(op for op in ops if isinstance(op, SharedOp)):
            self.arrays[op.result] = name = f"s{number}"
            self.apart.add(op.result)
            type, count = metal_type(loaded_type(op.result)), math.prod(memref_shape(op.result))
            self.line(f"alignas({VECTOR_BYTES}) threadgroup {type} {name}[{max(count, 1)}];")
        for number, op in enumerate(op for op in ops if isinstance(op, OwnOp)):
            self.arrays[op.result] = name = f"own{number}"
            self.apart.add(op.result)
            type, count = metal_type(loaded_type(op.result)), math.prod(memref_shape(op.result))
            self.line(f"{type} {name}[{count}];")
        self.variables_of("block_number", self.launch.grid.data)
        self.variables_of("thread_number", self.launch.block.data)
        self.write_ops(ops)
        return self.lines

    def write_ops(self, ops: Iterable[Operation]) -> None:
        """Writes operations in order; those that follow each other at the same points share their loops."""
        group: list[Operation] = []
        for op in ops:
            if op in self.in_steps or isinstance(op, SharedOp | OwnOp | YieldOp):
                continue
            if isinstance(op, arith.ConstantOp):
                self.values[op.result] = literal(op.value)
                continue
            if group and not (self.is_pointwise(op) and self.fits(group, op)):
                self.write_group(group)
                group = []
            if self.is_pointwise(op):
                group.append(op)
            else:
                self.write_op(op)
        if group:
            self.write_group(group)

    def is_pointwise(self, op: Operation) -> bool:
        return not isinstance(op, CONTROL) and self.vector_width(op) == 1

    def points_of(self, op: Operation) -> Variables:
        """The register variables, without those of open loops, at whose points an operation runs."""
        if op.results:
            return self.free(self.over[op.results[0]])
        names = {name for operand in op.operands for name in self.over.get(operand, ())} | names_of(op)
        return self.free(name for name in self.sizes if name in names)

    def fits(self, group: Sequence[Operation], op: Operation) -> bool:
        """Whether an operation has the points of a group, and may share its loops: no access conflicts."""
        return self.points_of(group[0]) == self.points_of(op) and not any(self.clash(o, op) for o in group)

    def clash(self, first: Operation, second: Operation) -> bool:
        """Whether two accesses, one of which stores, may alias."""
        if not isinstance(first, LoadOp | StoreOp) or not isinstance(second, LoadOp | StoreOp):
            return False
        if not isinstance(first, StoreOp) and not isinstance(second, StoreOp):
            return False
        is_apart = first.node in self.apart or second.node in self.apart
        return first.node == second.node or not is_apart

    def write_op(self, op: Operation) -> None:
        match op:
            case LoadOp():
                self.load_vector(op)
            case StoreOp():
                self.store_vector(op)
            case ReduceOp():
                self.reduce(op)
            case WhereOp():
                self.where(op)
            case IfOp():
                taken = f"if ({self.values[op.condition]})"
                with self.loops(self.free(self.over[op.condition])), self.braces(taken):
                    self.write_ops(op.body.block.ops)
            case PointOp():
                self.point(op)
            case ForOp():
                with self.space(op.space.data):
                    self.write_ops(op.body.block.ops)
            case CopyOp():
                self.copy(op)
            case BarrierOp():
                self.barrier()
            case CommitOp() | WaitOp() | WaitProductsOp():
                pass  # Metal has no asynchronous copies and products.
            case CombineOp():
                self.combine(op)
            case _:
                raise AssertionError(f"{op.name} is pointwise")

    def write_group(self, ops: Sequence[Operation]) -> None:
        """Writes operations in loops over their register variables; values used elsewhere are arrays."""
        over, inside = self.points_of(ops[0]), set(ops)
        arrays: set[SSAValue] = set()
        for value in (result for op in ops for result in op.results):
            self.values[value] = name = self.fresh()
            if over and any(use.operation not in inside for use in value.uses):
                arrays.add(value)
                self.values[value] = self.array(name, self.type_of(value), over)
        with self.loops(over):
            for op in ops:
                if isinstance(op, StoreOp):
                    self.line(f"{self.element(op)} = {self.values[op.value]};")
                for value, text in self.definitions(op):
                    type = "" if value in arrays else f"const {self.type_of(value)} "
                    self.line(f"{type}{self.values[value]} = {text};")

    def type_of(self, value: SSAValue) -> str:
        is_wide = isinstance(value.owner, PositionOp) and value.owner.size.data > INT_VALUES
        return "long" if is_wide and isinstance(value.type, IndexType) else metal_type(value.type)

    def definitions(self, op: Operation) -> list[tuple[SSAValue, str]]:
        """The results of an operation with their texts, in the order in which they are defined."""
        match op:
            case StoreOp():
                return []
            case LoadOp():
                return [(op.result, self.element(op))]
            case IndexOp():
                index = self.linear(op.index.terms, op.index.constant, scope_sizes(op))
                return [(op.result, f"{self.type_of(op.result)}({index})")]
            case PositionOp():
                number, inside, type = (
                    self.values[op.number],
                    self.values[op.inside],
                    self.type_of(op.position),
                )
                is_whole = f"{number} == trunc({number}) && " if type_is_float(op.number.type) else ""
                return [
                    (op.inside, f"{is_whole}{number} >= 0 && {number} < {op.size.data}"),
                    (op.position, f"{inside} ? {type}({number}) : 0"),
                ]
            case FarOp():
                return [(op.result, far_expression(op, [self.values[operand] for operand in op.operands]))]
            case _:
                return [(op.results[0], expression(op, [self.values[operand] for operand in op.operands]))]

    # Vectors.

    def vector_width(self, op: Operation) -> int:
        """The elements along the last register variable that one aligned access takes; 1 if only
        one can be.
        """
        if not isinstance(op, LoadOp | StoreOp) or op.positions or not is_aligned(op.node):
            return 1
        if isinstance(op.node.owner, OwnOp):
            return 1
        over = self.points_of(op)
        address, bytes = flatten(op.node, op.indices.data), element_bytes(op.node)
        if not over or address.stride(over[-1]) != 1:
            return 1
        width = self.sizes[over[-1]]
        steps = [coefficient for name, coefficient in address.terms if name != over[-1]]
        is_vector = width in VECTOR_WIDTHS and width * bytes == VECTOR_BYTES
        return width if is_vector and all(step % width == 0 for step in (*steps, address.constant)) else 1

    def load_vector(self, op: LoadOp) -> None:
        over, type, vector = self.points_of(op), self.type_of(op.result), self.fresh("w")
        self.values[op.result] = self.array(self.fresh(), type, over)
        with self.loops(over[:-1]):
            self.line(f"const {type}{self.sizes[over[-1]]} {vector} = {self.vector_at(op, over[-1])};")
            with self.loops(over[-1:]):
                self.line(f"{self.values[op.result]} = {vector}[{self.variables[over[-1]]}];")

    def store_vector(self, op: StoreOp) -> None:
        over, type, vector = self.points_of(op), self.type_of(op.value), self.fresh("w")
        with self.loops(over[:-1]):
            self.line(f"{type}{self.sizes[over[-1]]} {vector};")
            with self.loops(over[-1:]):
                self.line(f"{vector}[{self.variables[over[-1]]}] = {self.values[op.value]};")
            self.line(f"{self.vector_at(op, over[-1])} = {vector};")

    def vector_at(self, op: LoadOp | StoreOp, along: str) -> str:
        """The vector that begins where an access reaches the first element along a variable."""
        place = "threadgroup" if isinstance(op.node.owner, SharedOp) else "device"
        space = f"const {place}" if isinstance(op, LoadOp) else place
        type = f"{metal_type(loaded_type(op.node))}{self.sizes[along]}"
        return f"*({space} {type} *)&{self.element(op, along)}"

    # Control.

    def where(self, op: WhereOp) -> None:
        with self.loops(self.registers_in_bounds(op)), self.bounded(op, op.where.data):
            self.write_ops(op.body.block.ops)

    def point(self, op: PointOp) -> None:
        """Writes the body where a space has a point with a number, in its variables there."""
        with self.loops(self.registers_in_bounds(op)):
            number = self.number(op.at, scope_sizes(op))
            with self.braces(f"if ({number} < {op.at.count})"):
                self.variables_of(number, op.space.data)
                self.write_ops(op.body.block.ops)

    def number(self, at: Numbered, sizes: Mapping[str, int]) -> str:
        """Declares the number of a point."""
        number = self.fresh()
        self.line(f"const uint {number} = {self.linear(at.number.terms, at.number.constant, sizes)};")
        return number

    def registers_in_bounds(self, op: Operation) -> Variables:
        names = names_of(op)
        return self.free(name for name in self.sizes if name in names)

    def reduce(self, op: ReduceOp) -> None:
        over, type = self.free(self.over[op.result]), self.type_of(op.result)
        neutral = neutral_number(op.accum.data, op.result.type)
        text = int_literal(neutral, type) if isinstance(neutral, int) else float_literal(neutral, type)
        self.values[op.result] = self.filled(type, over, text)
        self.accumulate(op, self.values[op.result])

    def accumulate(self, op: ReduceOp, total: str) -> None:
        """Accumulates the points of a reduction into registers."""
        bounds = () if op.where is None else op.where.data
        with self.loops(self.registers_in_bounds(op)), self.space(op.space.data), self.bounded(op, bounds):
            self.write_ops(op.body.block.ops)
            self.step(op, total)

    def step(self, op: ReduceOp, total: str) -> None:
        """Accumulates the contribution of one point."""
        step = self.steps[op]
        if isinstance(step, ReduceOp) and self.over[step.result] == self.over[op.result]:
            self.accumulate(step, total)
            return
        if isinstance(step, ReduceOp):
            self.reduce(step)
        with self.loops(self.free(self.over[op.result])):
            if isinstance(step, arith.MulfOp):
                x, y = (self.values[operand] for operand in step.operands)
                self.line(f"{total} = fma({x}, {y}, {total});")
            else:
                value = self.values[op.yielded]
                self.line(f"{total} = {accumulation(op.accum.data, op.result.type, total, value)};")

    # Synchronized operations.

    def barrier(self) -> None:
        self.line(f"threadgroup_barrier({self.fence});")

    def copy(self, op: CopyOp) -> None:
        """Each thread takes every `threads`-th point of the space, or so many neighbours."""
        *others, (last, size) = op.space.data or (("", 1),)
        space = (*others, (last, size // op.by_threads))
        count, threads = math.prod(size for _, size in space), self.launch.threads
        sizes = {**scope_sizes(op), **dict(op.space.data), **dict(op.at.space if op.at else ())}
        source = self.place(op.source, op.source_map.data, sizes)
        target = self.place(op.target, op.target_map.data, sizes)
        turn, number = self.fresh(), self.fresh()
        with self.braces(f"UNROLL for (int {turn} = 0; {turn} < {-(-count // threads)}; {turn}++)"):
            self.line(f"const uint {number} = thread_number + {turn} * {threads};")
            with self.braces(f"if ({number} < {count})") if count % threads else nullcontext():
                self.variables_of(number, space, {last: op.by_threads})
                tests = [self.condition(op, op.bounds)] if op.bounds else []
                if op.at is not None:
                    place = self.number(op.at, sizes)
                    self.variables_of(place, op.at.space)
                    tests.append(f"{place} < {op.at.count}")
                with self.braces(f"if ({' && '.join(tests)})") if tests else nullcontext():
                    self.line(self.copied(source, target, op.by_threads, loaded_type(op.target)))
                if tests:
                    zero = f"{metal_type(loaded_type(op.target))}(0)"
                    with self.braces("else"):
                        for k in range(op.by_threads):
                            self.line(f"{target[:-1]}{f' + {k}' if k else ''}] = {zero};")

    def copied(self, source: str, target: str, by: int, type: Attribute) -> str:
        """Copies so many neighbours from one element on to another."""
        if by > 1:
            vector = vector_type(type, by)
            source = f"*(const device {vector} *)&{source}"
            target = f"*(threadgroup {vector} *)&{target}"
        return f"{target} = {source};"

    def combine(self, op: CombineOp) -> None:
        """Combines values by butterfly shuffles inside a SIMD group, then in order through threadgroup
        memory.
        """
        how, type = block_reduction(self.launch, op.across.data), op.result.type
        over = self.free(self.over[op.result])
        total = self.filled(self.type_of(op.result), over, self.values[op.value])
        self.values[op.result] = total
        with self.loops(over):
            for mask in how.masks:
                other = shuffled(type, total, mask)
                self.line(f"{total} = {accumulation(op.accum.data, type, total, other)};")
            if how.through_memory:
                assert op.scratch is not None
                scratch, first = self.arrays[op.scratch], self.fresh()
                self.line(f"{scratch}[thread_number] = {total};")
                self.barrier()
                group = how.stride * how.size
                self.line(
                    f"const uint {first} = thread_number / {group} * {group} + thread_number % {how.step};"
                )
                self.line(f"{total} = {scratch}[{first}];")
                part = self.fresh()
                with self.braces(f"for (int {part} = 1; {part} < {how.count}; {part}++)"):
                    other = f"{scratch}[{first} + {part} * {how.step}]"
                    self.line(f"{total} = {accumulation(op.accum.data, type, total, other)};")
                self.barrier()


def type_is_float(type: Attribute) -> bool:
    return type.__class__ in FLOATS


def memory_of_barriers(launch: LaunchOp) -> str:
    """The memory that barriers order: threadgroup memory, and device memory if the kernel reads what it
    writes.
    """
    written = {op.node for op in launch.body.walk() if isinstance(op, StoreOp)}
    read = {op.node for op in launch.body.walk() if isinstance(op, LoadOp)}
    read |= {op.source for op in launch.body.walk() if isinstance(op, CopyOp)}
    shares = any(not isinstance(node.owner, SharedOp | OwnOp) for node in written & read)
    own = "mem_flags::mem_threadgroup"
    return f"mem_flags::mem_device | {own}" if shares else own
