"""`lower-assign-to-loops`: a nest for each assignment, and one that fills the node where a reset needs it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import IntegerType, MemRefType, ModuleOp, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects import assign, loops
from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.images import covers
from ocannl.dialects.index.linear import Linear, Map, clashing_variables
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import given
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.precisions import computed_in, is_float, work_type
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.dialects.scalar.term_lowering import constant
from ocannl.dialects.scalar.terms import Arg, Const
from ocannl.lowering.scalar_body import Body, accumulated, assigned, floats_of
from ocannl.passes.analysis.names import fresh_label
from ocannl.passes.analysis.projection import whole

Space = Sequence[tuple[str, int]]


def accum_to_nests(op: assign.AccumOp, taken: Iterable[str]) -> list[Operation]:
    """The nests of an assignment: one that writes each element once if that can be; else one that fills the
    node, and one that accumulates into its elements.
    """
    if op.ids:
        return [nest_at_positions(op)]
    accum = None if op.accum is None else op.accum.data
    space, lhs_map = dict(op.space.data), op.lhs_map.data
    outer = dict.fromkeys(n for index in lhs_map for n in index.names if n in space)
    own = [(n, space[n]) for n in outer]
    clashes = clashing_variables(lhs_map, dict(own))
    if clashes and accum is None:
        raise OcannlError(
            at_line(op, f"points that differ in {', '.join(sorted(clashes))} set the same cell")
        )
    reduced = tuple((n, s) for n, s in op.space.data if n not in outer)
    label = node_label(op.lhs)

    body = Body(floats_of(op))
    if is_copy(op):
        value = body.add(loops.LoadOp(op.rhs[0], op.maps[0]))
    elif accum is None:
        value = assigned(op, body)
    else:
        value = accumulated(op, accum, body, reduced, add=bool(clashes) or op.reset is None)
    body.builder.ops.append(loops.StoreOp(value, op.lhs, lhs_map))
    nest = loops.NestOp(label, own, body.region())
    if op.reset is None or covers(lhs_map, dict(own), memref_shape(op.lhs)):
        return [nest]
    return [fill(op, accum, taken), nest]


def nest_at_positions(op: assign.AccumOp) -> loops.NestOp:
    """The nest of an assignment whose left side is indexed by values. Where one of these is not a position,
    the cell keeps its value.
    """
    accum, lhs_map = None if op.accum is None else op.accum.data, op.lhs_map.data
    body = Body(floats_of(op))
    b, sizes = body.builder, assign.axes_at_ids(lhs_map, memref_shape(op.lhs), len(op.ids))
    numbers = [number(ids, indices, body) for ids, indices in op.ids]
    found = [loops.PositionOp(n, size) for n, size in zip(numbers, sizes.values(), strict=True)]
    b.ops += found
    positions = [position.position for position in found]
    if accum is None:
        value = assigned(op, body)
    else:
        value = accumulated(op, accum, body, (), add=True, positions=positions)
    old = body.add(loops.LoadOp(op.lhs, lhs_map, positions))
    for position in found:
        value = b.select(position.inside, value, old)
    b.ops.append(loops.StoreOp(value, op.lhs, lhs_map, positions))
    return loops.NestOp(node_label(op.lhs), op.space.data, body.region())


def number(ids: SSAValue, indices: Map, body: Body) -> SSAValue:
    """An id as a number that a position is found from."""
    element = element_type(ids)
    if is_float(element):
        return body.load(ids, indices)
    return body.read(ids, indices, element if element in (i32, i64) else i64)


def accumulates_apart(op: assign.AccumOp) -> bool:
    """Whether a node of small floats takes part in the accumulation itself: each step would be rounded, and
    there may be no infinity to start from.
    """
    if op.accum is None or op.ids or small_format(element_type(op.lhs)) is None:
        return False
    space, lhs_map = dict(op.space.data), op.lhs_map.data
    names = {n for index in lhs_map for n in index.names if n in space}
    own = {n: size for n, size in space.items() if n in names}
    if clashing_variables(lhs_map, own):
        return True
    neutral = neutral_number(op.accum.data, element_type(op.lhs))
    return op.reset is not None and math.isinf(neutral) and not covers(lhs_map, own, shape_of(op))


def shape_of(op: assign.AccumOp) -> tuple[int, ...]:
    return memref_shape(op.lhs)


def accumulate_apart(
    op: assign.AccumOp, label: str, taken: Iterable[str]
) -> tuple[assign.NodeOp, list[assign.AccumOp]]:
    """The nests of an accumulation into a wider node, and one that rounds its values in the end."""
    type = MemRefType(floats_of(op), shape_of(op))
    node = assign.NodeOp(label, "local", f"accumulates for {node_label(op.lhs)}", type)
    cells, space = whole(shape_of(op), taken)

    def copy(target: SSAValue, source: SSAValue) -> assign.AccumOp:
        return assign.AccumOp(target, cells, Combination(Arg(0), (source,), (cells,)), space)

    assert op.accum is not None
    neutral = neutral_number(op.accum.data, element_type(op.lhs))
    resets = op.reset is not None and neutral == neutral_number(op.accum.data, floats_of(op))
    accum = assign.AccumOp(node.result, op.lhs_map.data, op.combination, op.space.data, op.accum.data, resets)
    if resets:
        first: list[assign.AccumOp] = []
    elif op.reset is not None:
        first = [assign.AccumOp(node.result, cells, Combination(Const(neutral), (), ()), space)]
    else:
        first = [copy(node.result, op.lhs)]
    return node, [*first, accum, copy(op.lhs, node.result)]


def is_copy(op: assign.AccumOp) -> bool:
    """Whether an assignment copies elements without arithmetic, also integers that a float could not hold."""
    if (
        op.accum is not None
        or not isinstance(op.term.data, Arg)
        or isinstance(op.rhs[0].owner, assign.EmbedOp)
    ):
        return False
    source = op.rhs[0]
    return not isinstance(source.owner, assign.EmbedOp) and source.type == op.lhs.type


def fill(op: assign.AccumOp, accum: str | None, taken: Iterable[str]) -> Operation:
    """Resets the whole node to the accumulation's neutral element."""
    body, element = Body(floats_of(op)), element_type(op.lhs)
    neutral = 0 if accum is None else neutral_number(accum, element)
    indices, space = whole(memref_shape(op.lhs), taken)
    type = body.type if is_float(element) else work_type(element)
    body.write(constant(body.builder, neutral, type), type, op.lhs, indices)
    return loops.NestOp(f"{node_label(op.lhs)} reset", space, body.region())


def range_to_nest(op: assign.RangeOp, taken: Iterable[str]) -> Operation:
    indices, space = whole(memref_shape(op.lhs), taken)
    element = element_type(op.lhs)
    body, type = Body(computed_in(element)), work_type(element)
    body.write(body.index(indices[0], type), type, op.lhs, indices)
    return loops.NestOp(node_label(op.lhs), space, body.region())


def uniform_to_nest(op: assign.UniformOp, taken: Iterable[str]) -> Operation:
    indices, space = whole(memref_shape(op.lhs), taken)
    body = Body(computed_in(element_type(op.lhs)))
    place = body.add(loops.IndexOp(place_in_memory(op.lhs, indices), place_type(op.lhs)))
    number = body.add(loops.UniformOp(op.stream.data, place, counter(op, body), body.type))
    body.write(upper_bits(number, op.lhs, body.builder), body.type, op.lhs, indices)
    return loops.NestOp(node_label(op.lhs), space, body.region())


def upper_bits(number: SSAValue, node: SSAValue, b: ArithBuilder) -> SSAValue:
    """Truncates a number in [0, 1) to the bits of a small float, since rounding might give 1."""
    format = small_format(element_type(node))
    if format is None:
        return number
    scale = 2.0 ** (format.fraction + 1)
    whole = b.float_op(math_dialect.FloorOp, b.mul(number, b.const(scale)))
    return b.mul(whole, b.const(1 / scale))


def place_in_memory(node: SSAValue, indices: Sequence[Linear]) -> Linear:
    """The index of an element of a row-major node in memory, counted from 0."""
    address = flatten(node, tuple(indices))
    return Linear(address.terms, address.constant)


def place_type(node: SSAValue) -> IntegerType:
    """The narrowest integer type that can index all elements."""
    return i32 if math.prod(memref_shape(node)) <= 2**32 else i64


def counter(op: assign.UniformOp, body: Body) -> SSAValue:
    if isinstance(op.counter.owner, assign.EmbedOp):
        return body.add(loops.IndexOp(op.counter.owner.index, i64))
    first = [Linear()] * len(memref_shape(op.counter))
    if not is_float(element_type(op.counter)):
        return body.read(op.counter, first, i64)
    # A whole number, which no counter has too many of.
    return body.builder.convert(arith.FPToSIOp, body.add(loops.LoadOp(op.counter, first)), i64)


def node_label(node: SSAValue) -> str:
    assert isinstance(node.owner, assign.NodeOp)
    return node.owner.label.data


def routine_to_func(routine: assign.AssignRoutineOp) -> loops.FuncOp:
    func = loops.FuncOp(routine.sym_name.data, routine.indices.data, attributes=dict(routine.attributes))
    func.properties |= given(mesh=routine.mesh)
    derive([func], routine.location)
    nodes = [op for op in routine.body.block.ops if isinstance(op, assign.NodeOp)]
    ops: list[Operation] = []
    for op in list(routine.body.block.ops):
        start = len(ops)
        match op:
            case assign.NodeOp():
                op.detach()
            case assign.AccumOp() if accumulates_apart(op):
                label = fresh_label(f"{node_label(op.lhs)}.sum", {n.label.data for n in nodes})
                node, steps = accumulate_apart(op, label, routine.ranges)
                nodes.append(node)
                derive([node], op.location)
                for step in steps:
                    ops += accum_to_nests(step, routine.ranges)
                    step.erase()
            case assign.AccumOp():
                ops += accum_to_nests(op, routine.ranges)
            case assign.RangeOp():
                ops.append(range_to_nest(op, routine.ranges))
            case assign.UniformOp():
                ops.append(uniform_to_nest(op, routine.ranges))
            case assign.RepeatOp():
                body, index, count = op.body.data, op.index.data, op.count.data
                ops.append(loops.RepeatOp(body, index, count, op.bound, op.flag))
            case assign.CollectiveOp():
                kind, mesh = op.kind.data, op.mesh.data
                phase = None if op.phase is None else op.phase.data
                joined = op.sums, phase, op.gathers
                ops.append(loops.CollectiveOp(kind, op.nodes, mesh, op.number_and_peer, *joined))
            case _:
                pass
        derive(ops[start:], op.location)
    func.body.block.add_ops([*nodes, *ops])
    return func


def check_loops(func: loops.FuncOp) -> None:
    """Raises `OcannlError` for a loop that does not fit to its body, which would write over other memory."""
    for op in func.body.block.ops:
        if isinstance(op, loops.RepeatOp):
            try:
                op.verify_()
            except VerifyException as error:
                raise OcannlError(at_line(op, str(error))) from None


@dataclass(frozen=True)
class LowerAssignToLoopsPass(ModulePass):
    """Turns every `assign.routine` into a `loops.func`."""

    name = "lower-assign-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in list(op.body.block.ops):
            if isinstance(routine, assign.AssignRoutineOp):
                func = routine_to_func(routine)
                Rewriter.replace_op(routine, func)
                check_loops(func)
