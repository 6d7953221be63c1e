"""The work of a run: scalar operations, and bytes of the cells that it accesses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from xdsl.dialects.arith import ConstantOp, ExtFOp, ExtSIOp, ExtUIOp, TruncFOp, TruncIOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Map
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import (
    CollectiveOp,
    GroupOp,
    IndexOp,
    LoadOp,
    NestOp,
    ReduceOp,
    RepeatOp,
    StoreOp,
    YieldOp,
)
from ocannl.passes.analysis.nests import Step, all_steps, body_of, is_inside

# What is no arithmetic: conversions to another width stand for loads and stores of small numbers.
NOT_COUNTED = (
    *(LoadOp, StoreOp, IndexOp, YieldOp, ConstantOp),
    *(ExtFOp, ExtSIOp, ExtUIOp, TruncFOp, TruncIOp),
)


def bytes_moved(step: Step) -> int:
    """Bytes of the cells that one run reads or writes, each access counted once in each iteration; nodes
    inside a group do not count.
    """
    if isinstance(step, RepeatOp):
        return step.count.data * sum(map(bytes_moved, all_steps(step.func)))
    if isinstance(step, CollectiveOp):
        return sum(math.prod(memref_shape(node)) * element_bytes(node) for node in step.nodes)
    return sum(
        cells * element_bytes(op.node)
        for (node, _), (op, cells) in _accesses(step).items()
        if not is_inside(node, step)
    )


def _accesses(step: NestOp | GroupOp) -> dict[tuple[SSAValue, Map], tuple[LoadOp | StoreOp, int]]:
    """The different accesses, each with the number of cells that it reaches."""
    found: dict[tuple[SSAValue, Map], tuple[LoadOp | StoreOp, int]] = {}
    for op in step.walk():
        if isinstance(op, LoadOp | StoreOp):
            sizes = scope_sizes(op)
            names = {name for index in op.indices.data for name in index.names}
            points = math.prod(size for name, size in sizes.items() if name in names)
            found[op.node, op.indices.data] = op, min(points, math.prod(memref_shape(op.node)))
    return found


def flops(step: Step) -> int:
    """Scalar operations of one run of the routine, loads and stores not counted; of a body, of an iteration
    of the loops around it.
    """
    match step:
        case NestOp():
            points = math.prod(scope_sizes(step).values()) * math.prod(s for _, s in step.space.data)
            return points * block_flops(body_of(step).body.block.ops)
        case GroupOp():
            return int(part_within(step) * sum(map(flops, step.nests)))
        case RepeatOp():
            return step.count.data * sum(map(flops, all_steps(step.func)))
        case CollectiveOp():
            return 0


def part_within(group: GroupOp) -> Fraction:
    """The part of the points of a group at which its bounds hold."""
    part = Fraction(1)
    for bound in group.bounds:
        values = np.array(bound.index.constant)
        for name, coefficient in bound.index.terms:
            values = np.add.outer(values, coefficient * np.arange(dict(group.space.data)[name]))
        part *= Fraction(int((values < bound.below).sum()), max(values.size, 1))
    return part


def block_flops(ops: Iterable[Operation]) -> int:
    """Scalar operations of a body at one point."""
    total = 0
    for op in ops:
        if isinstance(op, ReduceOp):
            total += math.prod(s for _, s in op.space.data) * (1 + block_flops(op.body.block.ops))
        elif not isinstance(op, NOT_COUNTED):
            total += 1
    return total
