"""Intermediate values of small floats that are kept in f32, so that sums and norms are rounded once.

All others are rounded where they are computed, whether they have memory or not. The types that a program
shows stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.index.linear import Map, Space
from ocannl.dialects.scalar.accumulation import ORDERED
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr.apply import MATERIALIZED
from ocannl.dialects.texpr.collectives import AllReduceOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import tensor_type

# Sums of fewer terms take too much memory in f32, if several operations read them.
LEAST_TERMS = 8


def wide_values(block: Block) -> set[SSAValue]:
    """The values of small floats in a block that are kept in f32: those that a single operation reads, which
    are mostly computed there; and statistics, which are sums of many terms, what all ranks have together of
    these, and what is computed from statistics of the same shape.
    """
    statistics, found = set[SSAValue](), set[SSAValue]()
    for op in block.ops:
        if isinstance(op, AllReduceOp) and op.tensor in statistics:
            statistics.add(op.result)
        elif isinstance(op, texpr.ApplyOp) and may_be_wide(op) and (readers := [*readers_of(op.result)]):
            (part,) = op.parts
            if not all(takes_wide(reader, op.result) for reader in readers):
                continue
            if is_statistic(part, statistics):
                statistics.add(op.result)
            elif len(readers) == 1 and not isinstance(readers[0], AllReduceOp):
                found.add(op.result)
    return found | statistics


def may_be_wide(op: texpr.ApplyOp) -> bool:
    """Whether a result of small floats can be in f32: that of a cast is rounded, and so are products of
    matrices; extremes are exact.
    """
    element = tensor_type(op.result).element
    if small_format(element) is None or not op.is_projected or op.more is not None:
        return False
    (part,) = op.parts
    is_cast = is_copy(part) and tensor_type(op.args[0]).element != element
    return not is_cast and op.mode_name != MATERIALIZED and op.accum_name not in ORDERED and adds_up(part)


def is_copy(part: Part) -> bool:
    return isinstance(part.combination.term, Arg) and len(part.combination.operands) == 1


def readers_of(value: SSAValue) -> Iterator[Operation]:
    """The operations that read a value, each once."""
    seen = dict.fromkeys(use.operation for use in value.uses)
    return (op for op in seen if not isinstance(op, texpr.GradOp))


def takes_wide(reader: Operation, value: SSAValue) -> bool:
    """Whether an operation may read a value in f32, and is no slower for it."""
    match reader:
        case texpr.ApplyOp():
            return reader.is_projected and all(map(adds_up, reader.parts))
        case texpr.AssignOp():
            return reader.value is value
        case AllReduceOp():
            return all(takes_wide(each, reader.result) for each in readers_of(reader.result))
        case _:
            return False


def adds_up(part: Part) -> bool:
    """Whether an operation is pointwise, or accumulates small floats that it reads once each. A product of
    matrices reads them several times.
    """
    inner = varying(part.space) - named(part.result_map)
    return all(is_full or inner.isdisjoint(names) for _, names, is_full in small_operands(part))


def is_statistic(part: Part, statistics: set[SSAValue]) -> bool:
    """Whether an operation is a sum of many terms, or pointwise on statistics of the shape of its result, or
    copies one.
    """
    inner = varying(part.space) - named(part.result_map)
    terms = math.prod(size for name, size in part.space if name in inner)
    if terms > 1:
        return terms >= LEAST_TERMS
    full = [value for value, _, is_full in small_operands(part) if is_full or is_copy(part)]
    return bool(full) and statistics.issuperset(full)


def small_operands(part: Part) -> Iterator[tuple[SSAValue, set[str], bool]]:
    """The operands of small floats that are not numbers, with the variables that they depend on, and whether
    these are all.
    """
    variables = varying(part.space)
    for value, indices in zip(part.combination.operands, part.combination.maps, strict=True):
        is_number = isinstance(value.owner, texpr.ConstantOp | texpr.EmbedOp)
        if not is_number and small_format(tensor_type(value).element) is not None:
            names = named(indices) & variables
            yield value, names, names == variables


def varying(space: Space) -> set[str]:
    """The variables that take several values."""
    return {name for name, size in space if size > 1}


def named(indices: Map) -> set[str]:
    return {name for index in indices for name in index.names}
