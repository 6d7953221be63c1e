"""`split-k`: long reductions with few results are split into parts, so that all multiprocessors work."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, Float32Type, Float64Type, MemRefType, ModuleOp, f32
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, SpaceAttr, identity_map
from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel.gpu import (
    BANK_BYTES,
    BYTES_A_CYCLE,
    CONCURRENT_BLOCKS,
    HALF_BYTES,
    LAUNCH_CYCLES,
    MULTIPLICATIONS_A_CYCLE,
    PROCESSORS,
)
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import functions, names_in, nodes, operations, points, single_nests
from ocannl.passes.analysis.patterns.contractions import (
    TILE_SIDES,
    Contraction,
    find_contraction,
    tile_count,
    tile_work,
)
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.schedules.shared_reductions import choose_lanes, is_long, shared_variable
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.indices import substitute_indices
from ocannl.passes.rewrites.rfactor import copies_for, nest_of, replace_reduction

# The most parts of a contraction with tiles enough.
MOST_PARTS = 16
# The values of a step of a pipeline, and the cycles that it takes at least, roughly.
STEP_DEPTH, STEP_CYCLES = 16, 300
# Tiles of 16-bit floats on tensor cores, how many these multiply a cycle, the depth of a step and the cycles
# that it takes besides, and those in which a block starts and stores; an H100 took so much. Two blocks with
# tiles that are small work at the same time.
TENSOR_TILES = (128, 256), (128, 192), (128, 128), (64, 128), (128, 64), (64, 64)
SMALL_TENSOR_TILE = 64 * 128
TENSOR_MULTIPLICATIONS, TENSOR_DEPTH, TENSOR_STEP_CYCLES, BLOCK_CYCLES = 1600, 64, 200, 3000
# The operations of a nest with a long formula.
LONG_FORMULA = 32
# Sums along rows are split if there would be fewer blocks than these, each reading so much; others if that
# saves more than so many kernels take. Both have so many blocks then, at most.
LEAST_READ, FEW_BLOCKS, ADDING_KERNELS, MOST_BLOCKS = 2**17, 32, 2, 256


@dataclass(frozen=True)
class Split:
    """A reduction to split along the variable `name` into equal `parts`, or to split off as a whole."""

    reduce: ReduceOp
    name: str
    parts: int


def choose_split(nest: NestOp, tensor_bytes: Collection[int]) -> Split | None:
    """The split of a nest that is estimated to be faster, if there is one.

    Tensor cores multiply numbers of so many bytes.
    """
    found = find_contraction(nest)
    if found is not None:
        bytes = factor_bytes(found)
        return split_contraction(nest, found, bytes if bytes in tensor_bytes else 0)
    reduces = [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    return None if nest.clashing else next(filter(None, (split_rows(nest, op) for op in reduces)), None)


def split_rows(nest: NestOp, reduce: ReduceOp) -> Split | None:
    """The split of a reduction that is no contraction, if it occupies few blocks."""
    values = points(reduce.space.data)
    if not points(nest.space.data) or not is_long(reduce) or needs_reduction(reduce):
        return None
    lanes, own = choose_lanes(nest, [reduce]), shared_variable(reduce)
    blocks = points(nest.space.data) // lanes.beside_count
    size, name = max((size, name) for name, size in reduce.space.data if name != own or size == values)
    parts = [1, *divisors(size, MOST_BLOCKS // blocks)][-1]
    if lanes.is_inner:
        is_slow = blocks < FEW_BLOCKS and values * lanes.beside_count >= LEAST_READ
    else:
        saved = reading(nest, reduce, blocks) - reading(nest, reduce, parts * blocks)
        is_slow = saved > ADDING_KERNELS * LAUNCH_CYCLES
    return Split(reduce, name, parts) if parts > 1 and is_slow else None


def reading(nest: NestOp, reduce: ReduceOp, blocks: int) -> float:
    """The estimated cycles in which so many blocks read what a reduction needs: each multiprocessor has its
    share of the bandwidth.
    """
    sizes = dict(nest.space.data) | dict(reduce.space.data)
    loads = [op for op in operations(reduce.body.block) if isinstance(op, LoadOp)]
    names = [names_in(op.indices.data) & sizes.keys() for op in loads]
    moved = sum(
        element_bytes(op.node) * math.prod(sizes[name] for name in moving)
        for op, moving in zip(loads, names, strict=True)
    )
    return moved / BYTES_A_CYCLE * max(1, PROCESSORS / blocks)


def needs_reduction(reduce: ReduceOp) -> bool:
    """Whether a reduction depends on the result of another of its nest."""
    copied, _ = copies_for(reduce)
    return sum(isinstance(op, ReduceOp) for op in copied) > 1


def split_contraction(nest: NestOp, found: Contraction, halves: int) -> Split | None:
    """The split with the least estimated time of a contraction, if that is less than without one. Tensor
    cores multiply numbers of so many bytes, if they do.
    """

    def time(split: Split) -> float:
        return cycles(nest, found, split.parts, halves) + adding_cycles(nest, found, split.parts)

    apart = bool(halves) and is_optimizer_step(nest)
    found_splits = [*splits(nest, found), *([Split(found.reduce, found.k, 1)] if apart else [])]
    best = min(found_splits, key=time, default=None)
    if best is None or (not apart and time(best) >= cycles(nest, found, 1, halves)):
        return None
    return best


def is_optimizer_step(nest: NestOp) -> bool:
    """Whether a nest has a long formula, and goes on from what it has stored in a run before."""
    ops = operations(nest.body.block)
    loaded = {op.node for op in ops if isinstance(op, LoadOp)}
    is_update = any(isinstance(op, StoreOp) and op.node in loaded for op in ops)
    return is_update and len(ops) >= LONG_FORMULA


def factor_bytes(found: Contraction) -> int:
    """The bytes of both factors' numbers, if these are floats of one type of up to 32 bits; else 0."""
    left, right = (element_type(load.node) for load in (found.left, found.right))
    is_one = left == right and (left == f32 or small_format(left) is not None)
    return element_bytes(found.left.node) if is_one else 0


def splits(nest: NestOp, found: Contraction) -> Iterator[Split]:
    """Splits into equal parts; those of the variable `k`, which a pipeline goes along, are whole steps, but
    where it goes along another variable then. Where the largest tiles are too few, there may be as many parts
    as fill all multiprocessors, so that large tiles do not leave some of them without work.
    """
    tiles = tile_count(nest, found, TILE_SIDES[-1], TILE_SIDES[-1])
    if not tiles:
        return
    needed = CONCURRENT_BLOCKS * PROCESSORS // tiles
    for name, size in found.reduce.space.data:
        for parts in divisors(size, max(MOST_PARTS, needed)):
            rest = max(size // parts, *(other for n, other in found.reduce.space.data if n != name), 0)
            if parts > 1 and (name != found.k or rest % STEP_DEPTH == 0):
                yield Split(found.reduce, name, parts)


def cycles(nest: NestOp, found: Contraction, parts: int, halves: int) -> float:
    """The estimated cycles of a contraction in so many parts, with the best tiles for tensor cores or not."""
    depth = points(found.reduce.space.data) // parts

    def of_tiles(rows: int, columns: int) -> float:
        blocks = parts * tile_count(nest, found, rows, columns)
        work = depth * tile_work(rows, columns) / MULTIPLICATIONS_A_CYCLE
        waiting = -(-depth // STEP_DEPTH) * STEP_CYCLES
        return max(-(-blocks // PROCESSORS) * work, -(-blocks // (CONCURRENT_BLOCKS * PROCESSORS)) * waiting)

    def on_tensor_cores(rows: int, columns: int) -> float:
        blocks = parts * tile_count(nest, found, rows, columns)
        beside = min(2 if rows * columns <= SMALL_TENSOR_TILE else 1, -(-blocks // PROCESSORS))
        step = TENSOR_STEP_CYCLES + beside * TENSOR_DEPTH * rows * columns / TENSOR_MULTIPLICATIONS
        steps = -(-depth * halves // (TENSOR_DEPTH * HALF_BYTES))
        return -(-blocks // (beside * PROCESSORS)) * (steps * step + BLOCK_CYCLES)

    if halves:
        return min(on_tensor_cores(*tile) for tile in TENSOR_TILES)
    return min(of_tiles(rows, columns) for rows in TILE_SIDES for columns in TILE_SIDES)


def adding_cycles(nest: NestOp, found: Contraction, parts: int) -> float:
    """The estimated cycles of storing, loading and adding parts."""
    type = found.reduce.result.type
    assert isinstance(type, FixedBitwidthType)
    return LAUNCH_CYCLES + 2 * parts * points(nest.space.data) * type.size / BYTES_A_CYCLE


def split_sum(func: FuncOp, nest: NestOp, split: Split, labels: Names) -> None:
    """Splits off a nest that computes partial results before a nest, which then adds these."""
    reduce, type = split.reduce, split.reduce.result.type
    names = Names.of(func, nest)
    part = names.fresh(f"{split.name}_part")
    parts = ((part, split.parts),) if split.parts > 1 else ()
    space = (*parts, *nest.space.data)
    cells = identity_map(name for name, _ in space)
    first = nest.label.data.split(" .. ")[0]
    label = labels.fresh(f"{first}.partial")
    shape = MemRefType(type, [size for _, size in space])
    node = NodeOp(label, "local", f"partial results of {first}", shape)
    copied, total = copies_for(reduce)
    partial = nest_of(label, space, [*copied, StoreOp(total, node.result, cells)])
    partial.location = nest.location
    derive([node, partial], reduce.location)
    if parts:
        take_part(partial, split, part)
        replace_reduction(reduce, [node.result], cells, parts, type)
    else:
        Rewriter.replace_op(reduce, LoadOp(node.result, cells))
    remove_unused_operations(nest.body.block)
    declare(func, node)
    Rewriter.insert_op(partial, InsertPoint.before(nest))


def take_part(nest: NestOp, split: Split, part: str) -> None:
    """Restricts the reduction of a nest to one part of the split variable."""
    (reduce,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    count = dict(reduce.space.data)[split.name] // split.parts
    inside = Linear.var(split.name) if count > 1 else Linear()
    substitute_indices(operations(nest.body.block), {split.name: Linear.of({part: count}) + inside})
    sizes = {**dict(reduce.space.data), split.name: count}
    reduce.properties["space"] = SpaceAttr(
        tuple((n, s) for n, s in sizes.items() if (n, s) != (split.name, 1))
    )


@dataclass(frozen=True)
class SplitKPass(ModulePass):
    """Split-K, or rfactor: splits long reductions with few results into parts, for a GPU; another nest adds
    the partial results (Suriana, Adams and Kamil, "Parallel Associative Reductions in Halide", 2017).

    So there are blocks for all multiprocessors. The number of parts depends on sizes alone, and they are
    added up in order: results do not depend on how many run at a time.

    Attributes:
        tf32: those of f32 are, too.
        warpgroups: those of floats of 8 bits are, too.
        tensor_cores: products of 16-bit floats are on tensor cores. What follows such a sum has a nest of its
            own if it is long, as that of an optimizer: nothing would be multiplied meanwhile, and it needs
            more registers than there are.
    """

    name = "split-k"
    tensor_cores: bool = True
    tf32: bool = False
    warpgroups: bool = False

    @property
    def tensor_bytes(self) -> set[int]:
        """The bytes of the numbers that tensor cores multiply."""
        multiplied = {HALF_BYTES: self.tensor_cores, BANK_BYTES: self.tf32, 1: self.warpgroups}
        return {bytes for bytes, is_multiplied in multiplied.items() if is_multiplied}

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            labels = Names({node.label.data for node in nodes(func)})
            for nest in single_nests(func):
                split = choose_split(nest, self.tensor_bytes)
                if split is not None and isinstance(split.reduce.result.type, Float32Type | Float64Type):
                    split_sum(func, nest, split, labels)
