"""From assignments to compact nests: one nest an assignment, and one that fills where a reset needs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects import assign, loops
from ocannl.dialects.addresses import flatten
from ocannl.dialects.arith_builder import ArithBuilder, ScalarType
from ocannl.dialects.errors import OcannlError, at_line
from ocannl.dialects.linear import Linear, clashing_variables
from ocannl.dialects.scalar import SCALAR_OPS, TRUTH_VALUES
from ocannl.dialects.term import Arg, lower
from ocannl.passes.images import covers
from ocannl.passes.infer_precisions import widest
from ocannl.passes.projection import whole

Space = Sequence[tuple[str, int]]


@dataclass
class Body:
    """Scalar operations of one block, computed in one float type; reads and writes convert."""

    type: ScalarType
    builder: ArithBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = ArithBuilder(self.type)

    def add(self, op: Operation) -> SSAValue:
        self.builder.ops.append(op)
        return op.results[0]

    def read(self, value: SSAValue, indices: Sequence[Linear]) -> SSAValue:
        if isinstance(value.owner, assign.EmbedOp):
            return self.add(loops.IndexOp(value.owner.index, self.type))
        return self.convert(self.add(loops.LoadOp(value, indices)), self.type)

    def convert(self, value: SSAValue, type: Attribute) -> SSAValue:
        return (
            value if value.type == type else self.builder.convert(conversion(value.type, type), value, type)
        )

    def write(self, value: SSAValue, node: SSAValue, indices: Sequence[Linear]) -> None:
        stored = self.convert(value, loops.element_type(node))
        self.builder.ops.append(loops.StoreOp(stored, node, indices))

    def region(self) -> Region:
        return Region(Block(self.builder.ops))


def conversion(source: Attribute, target: Attribute) -> type[Operation]:
    """The `arith` operation between two different element types."""
    is_float, to_float = (isinstance(t, Float32Type | Float64Type) for t in (source, target))
    if not is_float and not to_float:
        assert isinstance(source, FixedBitwidthType)
        assert isinstance(target, FixedBitwidthType)
        return arith.ExtSIOp if source.bitwidth < target.bitwidth else arith.TruncIOp
    if is_float and to_float:
        return arith.ExtFOp if isinstance(source, Float32Type) else arith.TruncFOp
    return arith.SIToFPOp if to_float else arith.FPToSIOp


def compute_type(op: assign.AccumOp) -> ScalarType:
    """The widest float among the operands and the result."""
    nodes = [v for v in (op.lhs, *op.rhs) if not isinstance(v.owner, assign.EmbedOp)]
    found = widest([loops.element_type(v) for v in nodes])
    return found if isinstance(found, Float64Type) else Float32Type()


def accum_to_nests(op: assign.AccumOp, taken: Iterable[str]) -> list[Operation]:
    """A nest that writes each cell once; else one that fills, and one that adds to cells in turn."""
    type, accum = compute_type(op), None if op.accum is None else op.accum.data
    space, lhs_map = dict(op.space.data), op.lhs_map.data
    outer = dict.fromkeys(n for index in lhs_map for n in index.names if n in space)
    own = [(n, space[n]) for n in outer]
    clashes = clashing_variables(lhs_map, dict(own))
    if clashes and accum is None:
        raise OcannlError(
            at_line(op, f"points that differ in {', '.join(sorted(clashes))} set the same cell")
        )
    reduced = [(n, s) for n, s in op.space.data if n not in outer]
    label = node_label(op.lhs)

    def value(body: Body) -> SSAValue:
        if is_copy(op):
            return body.add(loops.LoadOp(op.rhs[0], op.maps[0]))
        operands = [body.read(v, m) for v, m in zip(op.rhs, op.maps, strict=True)]
        return lower(op.term.data, operands, body.builder)

    body = Body(type)
    result = reduce(body, accum, reduced, value) if reduced and accum is not None else value(body)
    if accum is not None and (clashes or op.reset is None):
        result = SCALAR_OPS[accum].emit(body.builder, body.read(op.lhs, lhs_map), result)
    elif accum in TRUTH_VALUES and not reduced:
        result = SCALAR_OPS[accum].emit(body.builder, result, result)
    body.write(result, op.lhs, lhs_map)
    nest = loops.NestOp(label, own, body.region())
    if op.reset is None or covers(lhs_map, dict(own), assign.memref_shape(op.lhs)):
        return [nest]
    return [fill(op, accum, taken), nest]


def is_copy(op: assign.AccumOp) -> bool:
    """The elements move as they are: integers, too, which a float could not hold."""
    if (
        op.accum is not None
        or not isinstance(op.term.data, Arg)
        or isinstance(op.rhs[0].owner, assign.EmbedOp)
    ):
        return False
    source = op.rhs[0]
    return not isinstance(source.owner, assign.EmbedOp) and source.type == op.lhs.type


def reduce(body: Body, accum: str, space: Space, value: Callable[[Body], SSAValue]) -> SSAValue:
    inner = Body(body.type)
    inner.builder.ops.append(loops.YieldOp(value(inner)))
    return body.add(loops.ReduceOp(accum, space, inner.region(), body.type))


def fill(op: assign.AccumOp, accum: str | None, taken: Iterable[str]) -> Operation:
    """Resets the whole node to the accumulation's neutral element."""
    neutral = 0.0 if accum is None else SCALAR_OPS[accum].neutral
    assert neutral is not None
    body = Body(compute_type(op))
    indices, space = whole(assign.memref_shape(op.lhs), taken)
    body.write(body.builder.const(neutral), op.lhs, indices)
    return loops.NestOp(f"{node_label(op.lhs)} reset", space, body.region())


def range_to_nest(op: assign.RangeOp, taken: Iterable[str]) -> Operation:
    indices, space = whole(assign.memref_shape(op.lhs), taken)
    element = loops.element_type(op.lhs)
    body = Body(element if isinstance(element, Float64Type) else Float32Type())
    body.write(body.add(loops.IndexOp(indices[0], body.type)), op.lhs, indices)
    return loops.NestOp(node_label(op.lhs), space, body.region())


def uniform_to_nest(op: assign.UniformOp, taken: Iterable[str]) -> Operation:
    indices, space = whole(assign.memref_shape(op.lhs), taken)
    element = loops.element_type(op.lhs)
    body = Body(element if isinstance(element, Float64Type) else Float32Type())
    place = body.add(loops.IndexOp(place_in_memory(op.lhs, indices), place_type(op.lhs)))
    body.write(
        body.add(loops.UniformOp(op.stream.data, place, counter(op, body), body.type)), op.lhs, indices
    )
    return loops.NestOp(node_label(op.lhs), space, body.region())


def place_in_memory(node: SSAValue, indices: Sequence[Linear]) -> Linear:
    """The number of an element of a row-major node, from 0."""
    address = flatten(node, tuple(indices))
    return Linear(address.terms, address.constant)


def place_type(node: SSAValue) -> IntegerType:
    """The narrowest type of places that counts all elements."""
    return i32 if math.prod(assign.memref_shape(node)) <= 2**32 else i64


def counter(op: assign.UniformOp, body: Body) -> SSAValue:
    if isinstance(op.counter.owner, assign.EmbedOp):
        return body.add(loops.IndexOp(op.counter.owner.index, i64))
    first = [Linear()] * len(assign.memref_shape(op.counter))
    return body.convert(body.add(loops.LoadOp(op.counter, first)), i64)


def node_label(node: SSAValue) -> str:
    assert isinstance(node.owner, assign.NodeOp)
    return node.owner.label.data


def routine_to_func(routine: assign.AssignRoutineOp) -> loops.FuncOp:
    func = loops.FuncOp(routine.sym_name.data, routine.indices.data, attributes=dict(routine.attributes))
    func.location = routine.location
    ops: list[Operation] = []
    for op in list(routine.body.block.ops):
        match op:
            case assign.NodeOp():
                op.detach()
                ops.append(op)
            case assign.AccumOp():
                nests = accum_to_nests(op, routine.ranges)
                for nest in nests:
                    nest.location = op.location
                ops += nests
            case assign.RangeOp():
                ops.append(range_to_nest(op, routine.ranges))
            case assign.UniformOp():
                ops.append(uniform_to_nest(op, routine.ranges))
            case _:
                pass
    func.body.block.add_ops(ops)
    return func


@dataclass(frozen=True)
class LowerAssignToLoopsPass(ModulePass):
    """Turns every `assign.routine` into a `loops.func`."""

    name = "lower-assign-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in list(op.body.block.ops):
            if isinstance(routine, assign.AssignRoutineOp):
                Rewriter.replace_op(routine, routine_to_func(routine))
