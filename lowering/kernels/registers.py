"""Register variables of kernels: a value has a register for each point of those that it depends on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.bounds import BoundsAttr
from ocannl.dialects.index.linear import MapAttr
from ocannl.dialects.kernel import (
    AwaitOp,
    BarrierOp,
    CombineOp,
    CommitOp,
    CopyOp,
    FillOp,
    ReleaseOp,
    RolesOp,
    WaitOp,
)
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import MmaOp, WaitProductsOp
from ocannl.dialects.loops import ReduceOp, YieldOp

Variables = tuple[str, ...]
Point = Mapping[str, int]
OF_STAGES = (RolesOp, FillOp, AwaitOp, ReleaseOp)
TOGETHER = (BarrierOp, CombineOp, CommitOp, WaitOp, MmaOp, WaitProductsOp, *OF_STAGES)


def key(over: Variables, point: Point) -> tuple[int, ...]:
    """The values of the variables `over` at a point."""
    return tuple(point[name] for name in over)


def points(over: Iterable[str], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The points of a space of register variables; the last one varies fastest."""
    names = tuple(over)
    for values in itertools.product(*(range(sizes[name]) for name in names)):
        yield dict(zip(names, values, strict=True))


def register_variables(launch: LaunchOp) -> dict[SSAValue, Variables]:
    """The register variables that each value of a kernel depends on, in the order of their declaration."""
    found: dict[SSAValue, Variables] = {}
    _visit(launch.body.block, launch.registers.names, found)
    return found


def _visit(block: Block, variables: Variables, found: dict[SSAValue, Variables]) -> None:
    for op in block.ops:
        used = {name for operand in op.operands for name in found.get(operand, ())}
        if not isinstance(op, CopyOp):
            used.update(names_of(op))
        for region in op.regions:
            _visit(region.block, variables, found)
        if isinstance(op, ReduceOp):
            used.update(found[op.yielded])
        if isinstance(op, MmaOp):
            used = (used | {op.rows.data, op.columns.data}) - set(op.depth_names)
        over = tuple(name for name in variables if name in used)
        found.update((result, over) for result in op.results)


def names_of(op: Operation) -> set[str]:
    """The variables in the index maps and bounds of an operation, but not of those inside it."""
    names: set[str] = set()
    for attribute in op.properties.values():
        if isinstance(attribute, MapAttr):
            names.update(name for index in attribute.data for name in index.names)
        elif isinstance(attribute, BoundsAttr):
            names.update(name for bound in attribute.data for name in bound.index.names)
    return names


def needs_all_threads(op: Operation) -> bool:
    """Whether an operation, or one inside it, synchronizes the threads of a block."""
    return isinstance(op, TOGETHER) or (bool(op.regions) and any(isinstance(o, TOGETHER) for o in op.walk()))


def last_step(op: ReduceOp) -> Operation | None:
    """The operation that a reduction fuses into its accumulation: a product that becomes a
    fused multiply-add, or an inner reduction that goes on with the same accumulators.

    None if there is no such operation, if it has other uses, or if threads synchronize after it.
    """
    step = op.yielded.owner
    block = op.body.block
    if not isinstance(step, Operation) or step.parent is not block or not op.yielded.has_one_use():
        return None
    after = step.next_op
    while after is not None and not isinstance(after, YieldOp):
        if needs_all_threads(after):
            return None
        after = after.next_op
    if isinstance(step, arith.MulfOp | MmaOp):
        return step if op.accum.data == "add" else None
    return step if isinstance(step, ReduceOp) and step.accum == op.accum else None


def is_aligned(array: SSAValue) -> bool:
    """Whether an array begins where vectors may be read; offsets in the arena may be any."""
    node = array.owner
    return not isinstance(node, NodeOp) or node.offset is None or node.offset.data % VECTOR_BYTES == 0
