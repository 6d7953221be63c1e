"""Contractions among nests: sums, or other accumulations, of products of two operands along a shared axis;
and the cost of their tiles on a GPU.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import names_in, reduction_work
from ocannl.passes.analysis.schedules.strides import contiguous

# A smaller side or a shorter reduction is not worth a tile.
LEAST_SIDE, LEAST_REDUCED = 16, 8
# Of many rows that can be merged a tile may have few columns; threads stand still at the others.
MANY_ROWS, FEW_COLUMNS = 4096, 4
# The sides of tiles without tensor cores, and the cost of loading an operand, in multiplications.
TILE_SIDES, OPERAND_COST = (16, 32, 64, 128), 8


@dataclass(frozen=True)
class Contraction:
    """A reduction over `k` of two loads, one along the nest's variable `row`, one along `column`.

    Attributes:
        merged: the nest's variables whose points, in order, `row` counts, where it is none of the nest.
    """

    reduce: ReduceOp
    left: LoadOp
    right: LoadOp
    row: str
    column: str
    k: str
    merged: Space = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """The nest's variables that rows of a tile differ in."""
        return tuple(name for name, _ in self.merged) or (self.row,)

    @property
    def outer(self) -> Space:
        """The variables of the reduction but for `k`."""
        return tuple((name, size) for name, size in self.reduce.space.data if name != self.k)


def find_contraction(nest: NestOp, *, merges: bool = False) -> Contraction | None:
    """The contraction that does most of the work of a nest; None if there is none. With `merges`, rows may be
    few along each variable, if they can be merged, and columns may be few where rows are many.
    """
    if nest.clashing:
        return None
    reduces = [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    stored = {op.node for op in nest.body.block.ops if isinstance(op, StoreOp)}
    for reduce in reduces:
        other_work = reduction_work(op for op in reduces if op is not reduce)
        if other_work <= reduction_work([reduce]):
            found = as_contraction(nest, reduce, merges=merges)
            if found is not None and not {found.left.node, found.right.node} & stored:
                return found
    return None


def as_contraction(nest: NestOp, reduce: ReduceOp, *, merges: bool = False) -> Contraction | None:
    loads = [op for op in reduce.body.block.ops if isinstance(op, LoadOp)]
    if len(loads) != 2 or any(load.positions for load in loads) or not stands_alone(reduce):
        return None
    own = dict(nest.space.data)
    first, second = (names_in(load.indices.data) for load in loads)
    stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
    sides = [[n for n in own if n in a and n not in b] for a, b in ((first, second), (second, first))]
    if not all(sides):
        return None
    best = [max(names, key=lambda n: (contiguous(stores, n), own[n])) for names in sides]
    # The columns are contiguous in the result.
    if contiguous(stores, best[0]) > contiguous(stores, best[1]):
        best, loads = best[::-1], loads[::-1]
    ks = [(size, name) for name, size in reduce.space.data if name in first and name in second]
    if not ks or max(ks)[0] < LEAST_REDUCED:
        return None
    found = Contraction(reduce, loads[0], loads[1], best[0], best[1], max(ks)[1])
    rows = math.prod(size for _, size in row_variables(nest, found)) if merges else own[best[0]]
    least = FEW_COLUMNS if merges and rows >= MANY_ROWS else LEAST_SIDE
    return None if rows < LEAST_SIDE or own[best[1]] < least else found


def stands_alone(reduce: ReduceOp) -> bool:
    """Whether nothing but constants comes from outside, and only the loads depend on the point."""
    inside = set(reduce.body.block.ops)
    for op in inside:
        if isinstance(op, ReduceOp | IndexOp):
            return False
        for operand in op.operands:
            owner = operand.owner
            if not isinstance(op, LoadOp) and owner not in inside and not isinstance(owner, arith.ConstantOp):
                return False
    return True


def is_sum_of_products(found: Contraction) -> bool:
    """Whether a contraction adds up products of its operands, as they are or widened."""
    product = found.reduce.yielded.owner
    if found.reduce.accum.data != "add" or not isinstance(product, arith.MulfOp):
        return False
    return {loaded(operand) for operand in product.operands} == {found.left, found.right}


def loaded(value: SSAValue) -> LoadOp | None:
    """The load that a value comes from, directly or through a widening conversion."""
    if isinstance(value.owner, arith.ExtFOp):
        value = value.owner.input
    return value.owner if isinstance(value.owner, LoadOp) else None


def row_variables(nest: NestOp, found: Contraction) -> Space:
    """The variables that rows of tiles may differ in: all that only the left operand has, such as images and
    positions in them, if it is contiguous along `k`; else one.
    """
    if address_of(found.left).stride(found.k) != 1:
        return tuple((name, size) for name, size in nest.space.data if name == found.row)
    left, right = (names_in(load.indices.data) for load in (found.left, found.right))
    return tuple((n, size) for n, size in nest.space.data if n in left and n not in right)


def batch_size(nest: NestOp, found: Contraction) -> int:
    """The number of products side by side: the points of the nest's other variables."""
    return math.prod(size for name, size in nest.space.data if name not in (*found.rows, found.column))


def tile_count(nest: NestOp, found: Contraction, rows: int, columns: int) -> int:
    """The number of tiles with such sides that cover all results."""
    sizes = dict(nest.space.data)
    count = math.prod(sizes[name] for name in found.rows)
    return batch_size(nest, found) * -(-count // rows) * -(-sizes[found.column] // columns)


def tile_work(rows: int, columns: int, operand_cost: int = OPERAND_COST) -> int:
    """The cost of one step of a tile, in multiplications: of the products, and of loading their operands."""
    return rows * columns + operand_cost * (rows + columns)
