"""Stores into rows that are longer in memory than what is read of them (see `pad-rows`).

A bound may let them go into what nobody reads, up to a whole vector: so it holds for neighbours alike, and
they are stored together.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import POSITION, Linear, SpaceAttr
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, PositionOp, ReduceOp, StoreOp
from ocannl.passes.analysis.nests import names_in, nodes, operations

Columns = Mapping[SSAValue, int]

# Columns of points become a multiple of so many.
FILLED = 8


def accessed_columns(func: FuncOp) -> Columns:
    """How many columns of local nodes are accessed, where that is known and rows are longer."""
    found: dict[SSAValue, int] = {}
    for node in nodes(func):
        users = [use.operation for use in node.result.uses]
        if node.mode.data != "local" or not memref_shape(node.result):
            continue
        counts = [columns_of(op) if isinstance(op, LoadOp | StoreOp) else None for op in users]
        known = [count for count in counts if count is not None]
        if len(known) == len(users) > 0 and max(known) < memref_shape(node.result)[-1]:
            found[node.result] = max(known)
    return found


def columns_of(op: LoadOp | StoreOp) -> int | None:
    """One more than the last column that an operation of a nest accesses."""
    sizes = scope_sizes(op)
    for number, position in enumerate(op.positions):
        if isinstance(position.owner, PositionOp):
            sizes[f"{POSITION}{number}"] = position.owner.size.data
    extremes = op.indices.data[-1].extremes(sizes)
    return None if extremes is None else extremes[1] + 1


def fill_rows(nest: NestOp, columns: Columns) -> None:
    """Lets a nest of points go on to the end of rows, of which so many columns are accessed: their number is
    one of whole vectors then.
    """
    ops = operations(nest.body.block)
    accesses = [op for op in ops if isinstance(op, LoadOp | StoreOp)]
    if any(isinstance(op, ReduceOp) for op in ops):
        return
    sizes = dict(nest.space.data)
    for name, size in sizes.items():
        touching = [op for op in accesses if name in names_in(op.indices.data)]
        if touching and all(is_along(op, name) and columns.get(op.node) == size for op in touching):
            end = min(memref_shape(op.node)[-1] for op in touching) // FILLED * FILLED
            sizes[name] = max(size, end)
    nest.properties["space"] = SpaceAttr(tuple(sizes.items()))


def is_along(op: LoadOp | StoreOp, name: str) -> bool:
    """Whether an access goes along rows by a variable, and by no other way."""
    *others, last = op.indices.data
    return last == Linear.var(name) and name not in names_in(tuple(others))


def relax_bounds(launch: LaunchOp, columns: Columns) -> None:
    """Lets stores of a kernel go to the end of rows, of which so many columns are accessed, where bounds then
    are the same for neighbours that are registers.
    """
    registers = dict(launch.registers.data)
    sizes = {**dict(launch.grid.data), **dict(launch.block.data), **registers}
    for where in launch.walk() if columns else ():
        if isinstance(where, WhereOp):
            ends = [end_of_rows(where, bound, columns) for bound in where.where.data]
            bounds = [
                for_neighbours(bound, end, sizes, set(registers))
                for bound, end in zip(where.where.data, ends, strict=True)
            ]
            where.properties["where"] = BoundsAttr(tuple(bounds))


def end_of_rows(where: WhereOp, bound: Bound, columns: Columns) -> int:
    """How far what a bound is for may go: to the end of rows, if it stores along these and does nothing else
    there.
    """
    names, ends = set(bound.index.names), list[int]()
    for op in where.walk():
        if not isinstance(op, LoadOp | StoreOp) or names.isdisjoint(names_in(op.indices.data)):
            continue
        last = op.indices.data[-1]
        is_whole = last == bound.index and columns.get(op.node) == bound.below
        if isinstance(op, LoadOp) or not is_whole or names & names_in(op.indices.data[:-1]):
            return bound.below
        ends.append(memref_shape(op.node)[-1])
    return min(ends, default=bound.below)


def for_neighbours(bound: Bound, end: int, sizes: Mapping[str, int], registers: set[str]) -> Bound:
    """A bound that may hold up to an end, and is the same for neighbours of which some are registers."""
    for count in (16, 8, 4, 2):
        below = end // count * count
        parts = {name: c for name, c in bound.index.terms if c % count == 0}
        rest = {name: c for name, c in bound.index.terms if name not in parts}
        extremes = Linear.of(rest, bound.index.constant % count).extremes(sizes)
        fits = below >= bound.below and extremes is not None and extremes[0] >= 0 and extremes[1] < count
        if fits and registers & set(rest):
            return Bound(Linear.of(parts, bound.index.constant // count * count), below)
    return bound
