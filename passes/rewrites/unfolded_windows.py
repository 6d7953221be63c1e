"""Products over windows of few channels become products of matrices, in which windows are rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, MapAttr, Space, SpaceAttr, identity_map
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import all_steps, names_in, points, written_nodes
from ocannl.passes.analysis.patterns.contractions import (
    LEAST_REDUCED,
    LEAST_SIDE,
    find_contraction,
    stands_alone,
)
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.rfactor import copies_for, nest_of, replace_reduction

# What is unfolded takes no more bytes than these, or than so many times what the nest touches.
FEW_BYTES, MOST_TIMES = 2**24, 2


@dataclass(frozen=True)
class Matrix:
    """An operand as a matrix: `rows` and `columns` are variables, those with the longest strides first.

    The columns have one number, that of a point of their space.
    """

    load: LoadOp
    rows: Space
    columns: Space

    @staticmethod
    def of(load: LoadOp, rows: Space, columns: Space) -> Matrix:
        return Matrix(load, by_strides(load, rows), by_strides(load, columns))

    @property
    def width(self) -> int:
        return points(self.columns)

    @property
    def bytes(self) -> int:
        return points(self.rows) * self.width * element_bytes(self.load.node)

    def at(self, column: Linear) -> tuple[Linear, ...]:
        return (*identity_map(name for name, _ in self.rows), column)


def by_strides(load: LoadOp, space: Space) -> Space:
    """The variables, those first along which a load has the longest strides."""
    return tuple(sorted(space, key=lambda extent: -abs(address_of(load).stride(extent[0]))))


def number(space: Space) -> Linear:
    """The number of a point of a space, whose last variable varies fastest."""
    total = Linear()
    for name, size in space:
        total = total * size + Linear.var(name)
    return total


@dataclass(frozen=True)
class Unfolding:
    """A nest with a sum of products whose operands become matrices.

    Attributes:
        matrices: both operands, if the variables of the reduction are their columns; or the one whose own
            variables of the nest are columns, as in the gradient of a kernel.
    """

    nest: NestOp
    reduce: ReduceOp
    matrices: tuple[Matrix, ...]


def find_unfolding(nest: NestOp, least: int) -> Unfolding | None:
    """How to make the sum of products of a nest one of matrices; None if it is one already, has less than
    `least` products, or would take too much memory.
    """
    reduces = [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    if nest.clashing or not isinstance(nest.parent_op(), FuncOp) or len(reduces) != 1:
        return None
    (reduce,) = reduces
    loads = [op for op in reduce.body.block.ops if isinstance(op, LoadOp)]
    if len(loads) != 2 or reduce.where is not None or not stands_alone(reduce):
        return None
    if any(load.positions for load in loads) or points(nest.space.data) * points(reduce.space.data) < least:
        return None
    stored = [op.node for op in nest.body.block.ops if isinstance(op, StoreOp)]
    if any(load.node in stored for load in loads):
        return None
    if find_contraction(nest) is not None or find_contraction(nest, merges=True) is not None:
        return None
    matrices = as_matrices(nest, reduce, loads)
    moved = sum(map(node_bytes, {*stored, *(load.node for load in loads)}))
    is_small = sum(matrix.bytes for matrix in matrices) <= max(FEW_BYTES, MOST_TIMES * moved)
    return Unfolding(nest, reduce, matrices) if matrices and is_small else None


def node_bytes(node: SSAValue) -> int:
    return math.prod(memref_shape(node)) * element_bytes(node)


def as_matrices(nest: NestOp, reduce: ReduceOp, loads: Sequence[LoadOp]) -> tuple[Matrix, ...]:
    """The operands to unfold; none if there would be no sides or no depth for tiles."""
    own, summed = nest.space.data, reduce.space.data
    names = [names_in(load.indices.data) for load in loads]
    sides = [tuple(extent for extent in own if extent[0] in used) for used in names]
    is_product = sorted([*sides[0], *sides[1]]) == sorted(own)
    if not is_product or any(name not in used for name, _ in summed for used in names):
        return ()
    if all(size < LEAST_REDUCED for _, size in summed):
        if len(summed) < 2 or points(summed) < LEAST_REDUCED or not are_sides(*sides):
            return ()
        return tuple(Matrix.of(load, side, summed) for load, side in zip(loads, sides, strict=True))
    for load, side, other in zip(loads, sides, reversed(sides), strict=True):
        if len(side) > 1 and longest(side) < LEAST_SIDE <= min(points(side), longest(other)):
            return (Matrix.of(load, summed, side),)
    return ()


def are_sides(one: Space, other: Space) -> bool:
    """Whether tiles fit: columns along one variable, and rows along all of the other operand."""
    return max(longest(one), longest(other)) >= LEAST_SIDE <= min(points(one), points(other))


def longest(space: Space) -> int:
    return max((size for _, size in space), default=1)


@dataclass(frozen=True)
class Unfolder:
    """Makes the sums of products of a function ones of matrices, each matrix once.

    Attributes:
        made: the nests that fill matrices, by what they read.
    """

    func: FuncOp
    labels: Names
    made: dict[tuple[object, ...], NestOp] = field(default_factory=dict[tuple[object, ...], NestOp])

    def run(self, found: Unfolding) -> None:
        if found.matrices[0].columns == by_strides(found.matrices[0].load, found.reduce.space.data):
            self.shorten_reduction(found)
        else:
            self.widen_side(found)

    def shorten_reduction(self, found: Unfolding) -> None:
        """Lets a reduction run over the columns of both operands."""
        first = found.matrices[0]
        column = Names.of(self.func, found.nest).fresh("column")
        for matrix in found.matrices:
            self.load_from(replace(matrix, columns=first.columns), found.nest, Linear.var(column))
        found.reduce.properties["space"] = SpaceAttr(((column, first.width),))

    def widen_side(self, found: Unfolding) -> None:
        """Computes a matrix whose columns are those of an operand; the nest reads the sums from there."""
        nest, reduce, (matrix,) = found.nest, found.reduce, found.matrices
        inner = {name for name, _ in matrix.columns}
        rows = tuple(extent for extent in nest.space.data if extent[0] not in inner)
        column = Names.of(self.func, nest).fresh("column")
        space = (*rows, (column, matrix.width))
        first = nest.label.data.split(" .. ")[0]
        label = self.labels.fresh(f"{first}.columns")
        shape = MemRefType(reduce.result.type, [size for _, size in space])
        node = NodeOp(label, "local", f"{first}, with windows as columns", shape)
        copied, total = copies_for(reduce)
        cells = identity_map(name for name, _ in space)
        sums = nest_of(label, space, [*copied, StoreOp(total, node.result, cells)])
        sums.location = nest.location
        derive([node, sums], reduce.location)
        self.declare(node)
        Rewriter.insert_op(sums, InsertPoint.before(nest))
        (inside,) = (op for op in sums.body.block.ops if isinstance(op, ReduceOp))
        load = next(
            op
            for op in inside.body.block.ops
            if isinstance(op, LoadOp) and (op.node, op.indices) == (matrix.load.node, matrix.load.indices)
        )
        self.load_from(replace(matrix, load=load), sums, Linear.var(column))
        replace_reduction(
            reduce,
            [node.result],
            (*identity_map(name for name, _ in rows), number(matrix.columns)),
            (),
            reduce.result.type,
        )
        remove_unused_operations(nest.body.block)

    def load_from(self, matrix: Matrix, nest: NestOp, column: Linear) -> None:
        """Lets a load read a matrix, which is filled before the nest unless it is already."""
        filled = self.filled(matrix, nest)
        (store,) = (op for op in filled.body.block.ops if isinstance(op, StoreOp))
        matrix.load.operands[0] = store.node
        matrix.load.properties["indices"] = MapAttr(matrix.at(column))

    def filled(self, matrix: Matrix, before: NestOp) -> NestOp:
        """The nest that fills a matrix, with what is there when another nest runs."""
        space = (*matrix.rows, *matrix.columns)
        own = {name: Linear.var(f"#{place}") for place, (name, _) in enumerate(space)}
        places = tuple(index.substitute(own) for index in matrix.load.indices.data)
        key = (matrix.load.node, places, len(matrix.rows), tuple(size for _, size in space))
        known = self.made.get(key)
        if known is None or self.is_written(matrix.load.node, known, before):
            known = self.made[key] = self.fill(matrix)
            Rewriter.insert_op(known, InsertPoint.before(before))
        return known

    def is_written(self, node: SSAValue, since: NestOp, until: NestOp) -> bool:
        steps = all_steps(self.func)
        between = steps[steps.index(since) : steps.index(until)]
        return any(node in written_nodes(step) for step in between)

    def fill(self, matrix: Matrix) -> NestOp:
        source, space = matrix.load.node, (*matrix.rows, *matrix.columns)
        assert isinstance(source.owner, NodeOp)
        name = source.owner.label.data
        label = self.labels.fresh(f"{name}.matrix")
        shape = MemRefType(element_type(source), [*(size for _, size in matrix.rows), matrix.width])
        node = NodeOp(label, "local", f"{name} with windows as rows", shape)
        self.declare(node)
        load = LoadOp(source, matrix.load.indices.data)
        nest = nest_of(
            label, space, [load, StoreOp(load.result, node.result, matrix.at(number(matrix.columns)))]
        )
        derive([node, nest], matrix.load.location)
        return nest

    def declare(self, node: NodeOp) -> None:
        declare(self.func, node)
