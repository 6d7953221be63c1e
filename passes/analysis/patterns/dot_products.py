"""Sums of products of nests that an instruction of a matrix unit can add up, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.dot_instructions import (
    DOT_FEATURES,
    TILE,
    DotInstruction,
    dot_instructions,
    widened,
)
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.tile_cost import rows_that_stay
from ocannl.passes.analysis.nests import names_in, operations, variable_sizes
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.targets.target import TargetDescription

# The operations of a sum of products.
PRODUCT = (LoadOp, arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.MulfOp, arith.MuliOp, YieldOp)
# The groups of neighbours that a step takes at least, if there are so many, so that no part of the sum is
# left to other instructions.
LEAST_STEP = 8
# The cycles of a matrix unit for a step of four tiles, with its loads; to go on with a result, where those of
# a tile are neighbours in memory, and where each is stored by itself.
STEP_CYCLES, RESULT_CYCLES, SCATTERED_CYCLES = 96.0, 0.5, 2.0
# The vectors beside the accumulators of a tile of vectors: of the columns, of a row, and of corrections.
BESIDE = 5
# The cycles to copy an element, where neighbours along the sum, or those along the columns, are neighbours in
# memory, and where neither are.
PAIRS, INTERLEAVED, MOVED = 0.4, 0.6, 2.0
# Those to copy an element of rows, across which they move.
TRANSPOSED = 0.8
# A product of so many multiplications is worth the setup of the unit, and the part of the cycles of vector
# instructions that it may take.
LEAST_WORK, PAYS = 2**15, 1.0
# The bytes of a number in which products are added up.
WORD = 4


@dataclass(frozen=True, slots=True)
class DotTile:
    """The block of results for which an instruction accumulates in registers.

    Attributes:
        rows: its rows.
        columns: its columns.
        step: the groups along the sum that a step takes at most.
        cycles: those of a step.
    """

    rows: int
    columns: int
    step: int
    cycles: float

    @staticmethod
    def of(instruction: DotInstruction, target: TargetDescription, apart: int = 0) -> DotTile:
        """The tile for rows that are read where they are, so many bytes apart; 0 for those of a copy. Of
        vectors, it has no more of them than the first-level cache holds at a time.
        """
        if instruction.on_tiles:
            return DotTile(2 * TILE, 2 * TILE, TILE, STEP_CYCLES)
        rows = (target.vector_registers - BESIDE) // 2
        rows = min(rows, rows_that_stay(apart, target)) if apart else rows
        ports = instruction.ports or target.fma_ports
        return DotTile(rows, 2 * target.vector_bytes // WORD, 1, 2 * rows / ports)


@dataclass(frozen=True)
class DotProduct:
    """A sum of products of two operands of a nest, of which `left` moves along the rows and `right` along the
    columns of the instruction's tiles.

    The sum goes along `k` in groups of as many neighbours as the instruction takes, `step` groups at a time.
    """

    reduction: ReduceOp
    left: LoadOp
    right: LoadOp
    row: str
    column: str
    k: str
    instruction: DotInstruction
    tile: DotTile
    sizes: Mapping[str, int]
    is_scattered: bool
    """Whether results are neighbours in memory neither along the rows nor along the columns."""

    @property
    def depth(self) -> int:
        return self.instruction.depth

    @cached_property
    def step(self) -> int:
        groups = self.sizes[self.k] // self.depth
        even = largest_divisor(groups, self.tile.step)
        return even if even >= min(groups, LEAST_STEP, self.tile.step) else self.tile.step

    @property
    def groups(self) -> int:
        """The groups along `k` that steps take."""
        return self.sizes[self.k] // self.depth // self.step * self.step

    @property
    def rest(self) -> int:
        """The numbers at the end of the sum along `k` that are no whole step."""
        return self.sizes[self.k] - self.groups * self.depth

    @property
    def is_direct(self) -> bool:
        """Whether the rows are read where they are: their neighbours along `k` are neighbours in memory."""
        address = address_of(self.left)
        return address.stride(self.k) == 1 and address.stride(self.row) > 0

    @property
    def cycles(self) -> float:
        """An estimate of the cycles, with those of the copies."""
        own = [size for name, size in self.sizes.items() if name not in self.reduction.space.names]
        results = math.prod(own)
        outer = math.prod(size for name, size in self.reduction.space.data if name != self.k)
        rows, columns = self.sizes[self.row], self.sizes[self.column]
        tiles = (
            results / (rows * columns) * covered(rows, self.tile.rows) * covered(columns, self.tile.columns)
        )
        steps = tiles * outer * (self.groups // self.step)
        left_over = results * outer * self.rest / TILE
        copies = copy_cycles(self.right, self.column, self.k)
        if not self.is_direct:
            copies += TRANSPOSED * copied_elements(self.left)
        each = SCATTERED_CYCLES if self.is_scattered else RESULT_CYCLES
        return steps * self.tile.cycles + left_over + results * each + copies


def covered(size: int, extent: int) -> float:
    """How many tiles cover a size; parts of a tile are as much less."""
    whole, remainder = divmod(size, extent)
    return whole + (max(0.5, remainder / extent) if remainder else 0)


def find_dot_product(nest: NestOp, target: TargetDescription) -> DotProduct | None:
    """The sum of products of a nest that the target has an instruction for, with the operands in the roles in
    which it takes the fewest cycles; None if there is none.
    """
    if not target.features & DOT_FEATURES or not isinstance(nest.parent_op(), FuncOp):
        return None
    reductions = [op for op in operations(nest.body.block) if type(op) is ReduceOp]
    if len(reductions) != 1:
        return None
    found = min(candidates(nest, reductions[0], target), key=lambda found: found.cycles, default=None)
    return found if found is not None and found.cycles <= PAYS * vector_cycles(found, target) else None


def vector_cycles(found: DotProduct, target: TargetDescription) -> float:
    """The fewest cycles in which vector instructions add up as many products, of copies of the operands that
    widen them.
    """
    lanes = target.vector_bytes // WORD
    copies = PAIRS * (copied_elements(found.left) + copied_elements(found.right))
    return math.prod(found.sizes.values()) / (lanes * target.fma_ports) + copies


def candidates(nest: NestOp, reduction: ReduceOp, target: TargetDescription) -> Iterator[DotProduct]:
    """All roles that the operands and variables of a sum of products may have."""
    sizes, own = variable_sizes(nest), set(nest.space.names)
    if not is_sum_of_products(reduction) or math.prod(sizes.values()) < LEAST_WORK:
        return
    stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
    written, strides = {op.node for op in stores}, [address_of(op).stride for op in stores]
    product = reduction.yielded.owner
    assert isinstance(product, arith.MulfOp | arith.MuliOp)
    loads = [op for op in reduction.body.block.ops if isinstance(op, LoadOp)]
    if len(loads) != 2 or any(op.positions or op.node in written for op in loads):
        return
    names = [names_in(load.indices.data) for load in loads]
    if own - names[0] - names[1] or any(size < 1 for size in sizes.values()):
        return
    clashing = nest.clashing
    for left, right in ((0, 1), (1, 0)):
        factors = [factor for load in (loads[left], loads[right]) for factor in read_by(product, load)]
        if len(factors) != 2:
            continue
        known = dot_instructions(factors[0], factors[1], reduction.result.type)
        instruction = next((dot for dot in known if dot.features & target.features), None)
        if instruction is None:
            continue
        address, bytes = address_of(loads[left]), element_bytes(loads[left].node)
        for row in sorted((own & names[left]) - names[right] - clashing):
            for column in sorted((own & names[right]) - names[left] - clashing):
                is_scattered = any(1 not in (stride(row), stride(column)) for stride in strides)
                for k in sorted(names[left] & names[right] & set(reduction.space.names)):
                    operands = reduction, loads[left], loads[right]
                    apart = address.stride(row) * bytes if address.stride(k) == 1 else 0
                    tile = DotTile.of(instruction, target, apart)
                    found = DotProduct(*operands, row, column, k, instruction, tile, sizes, is_scattered)
                    if sizes[k] >= instruction.depth and fits(found):
                        yield found


def is_sum_of_products(reduction: ReduceOp) -> bool:
    """Whether a reduction adds up products of two different loads, and nothing else."""
    ops = list(reduction.body.block.ops)
    product = reduction.yielded.owner
    return (
        reduction.accum.data == "add"
        and all(isinstance(op, PRODUCT) for op in ops)
        and isinstance(product, arith.MulfOp | arith.MuliOp)
        and product.lhs is not product.rhs
        and all(widened(factor)[0] != factor.type for factor in product.operands)
    )


def read_by(product: arith.MulfOp | arith.MuliOp, load: LoadOp) -> list[SSAValue]:
    """The factors of a product that are a widened load."""
    return [
        factor
        for factor in product.operands
        if isinstance(factor.owner, Operation) and factor.owner.operands[0] is load.result
    ]


def fits(found: DotProduct) -> bool:
    """Whether the operands are laid out as the instruction wants them, or can be copied so."""
    can_copy_right = has_axes(found.right, found.column, found.k, found.sizes)
    return can_copy_right and (found.is_direct or has_axes(found.left, found.row, found.k, found.sizes))


def has_axes(load: LoadOp, side: str, k: str, sizes: Mapping[str, int]) -> bool:
    """Whether two variables are axes of an operand, and the others move along the nest or not at all."""
    shape = memref_shape(load.node)
    for index, size in zip(load.indices.data, shape, strict=True):
        used = set(index.names) & {side, k}
        if used and (index.variable is None or sizes[index.variable] != size):
            return False
        if not used and set(index.names) & sizes.keys() and not set(index.names) <= sizes.keys():
            return False
    return all(axis_of(load, name) is not None for name in (side, k))


def axis_of(load: LoadOp, variable: str) -> int | None:
    """The axis of which a variable is the index."""
    return next((axis for axis, index in enumerate(load.indices.data) if index.variable == variable), None)


def copied_elements(load: LoadOp) -> int:
    """The elements of a copy of an operand: of all axes whose index is not fixed."""
    shape = memref_shape(load.node)
    return math.prod(
        size for index, size in zip(load.indices.data, shape, strict=True) if not index.is_constant
    )


def copy_cycles(load: LoadOp, column: str, k: str) -> float:
    """The cycles to copy an operand with neighbours along the sum beside each other in each column."""
    address = address_of(load)
    along = [
        PAIRS if address.stride(k) == 1 else MOVED,
        INTERLEAVED if address.stride(column) == 1 else MOVED,
    ]
    return min(along) * copied_elements(load)
