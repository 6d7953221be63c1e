"""`split-sums`: long contractions with few results are computed in parts, so that all processors work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, Float32Type, Float64Type, MemRefType, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.linear import Linear, SpaceAttr, identity_map
from ocannl.dialects.loops import FuncOp, NestOp, ReduceOp, StoreOp
from ocannl.lowering.loops_to_kernels.contraction import OPERAND_COST, PROCESSORS, TILES
from ocannl.lowering.loops_to_kernels.recognition import Contraction, find, others
from ocannl.passes.nests import (
    Names,
    nests,
    nodes,
    operations,
    points,
    remove_unused_operations,
    substitute_indices,
    ungrouped,
)
from ocannl.passes.share_out import copies_for, nest_of, replace_reduction
from ocannl.passes.shared_rows import divisors

# The most parts of a sum.
MOST_PARTS = 16
# Cycles, roughly: what a step of so many values takes at least, and a kernel with its launch.
STEP_DEPTH, STEP_CYCLES, KERNEL_CYCLES = 16, 300, 5000
# Multiplications of a processor in a cycle, blocks that it overlaps, and bytes of memory that all move.
RATE, OVERLAPPED, BYTES_A_CYCLE = 128, 4, 1200


@dataclass(frozen=True)
class Split:
    """`parts` of a variable of a contraction's reduction."""

    name: str
    parts: int


def choose_split(nest: NestOp, found: Contraction) -> Split | None:
    """The split with which a contraction takes least time, if that is less than without."""
    best = min(splits(found), key=lambda split: cycles(nest, found, split.parts), default=None)
    if best is None or cycles(nest, found, best.parts) >= cycles(nest, found, 1):
        return None
    return best


def splits(found: Contraction) -> Iterator[Split]:
    """Equal parts, in whole steps where it is the variable of the steps."""
    for name, size in found.reduce.space.data:
        for parts in divisors(size):
            if 1 < parts <= MOST_PARTS and (name != found.k or size // parts % STEP_DEPTH == 0):
                yield Split(name, parts)


def cycles(nest: NestOp, found: Contraction, parts: int) -> float:
    """The time that a contraction takes in so many parts, with the best tiles, and that to add these up."""
    sizes, count = dict(nest.space.data), others(nest, found) * parts
    depth, type = points(found.reduce.space.data) // parts, found.reduce.result.type
    assert isinstance(type, FixedBitwidthType)

    def of_tiles(rows: int, columns: int) -> float:
        blocks = count * -(-sizes[found.row] // rows) * -(-sizes[found.column] // columns)
        work = depth * (rows * columns + OPERAND_COST * (rows + columns)) / RATE
        waiting = -(-depth // STEP_DEPTH) * STEP_CYCLES
        return max(-(-blocks // PROCESSORS) * work, -(-blocks // (OVERLAPPED * PROCESSORS)) * waiting)

    own = min(of_tiles(rows, columns) for rows in TILES for columns in TILES)
    moved = 2 * parts * points(nest.space.data) * type.size
    return own if parts == 1 else own + KERNEL_CYCLES + moved / BYTES_A_CYCLE


def split_sum(func: FuncOp, nest: NestOp, found: Contraction, split: Split, labels: Names) -> None:
    """Computes the parts in a nest of their own before a nest, which adds them up."""
    reduce, type = found.reduce, found.reduce.result.type
    assert isinstance(type, Float32Type | Float64Type)
    names = Names.of(func, nest)
    part = names.fresh(f"{split.name}_part")
    space = ((part, split.parts), *nest.space.data)
    cells = identity_map(name for name, _ in space)
    first = nest.label.data.split(" .. ")[0]
    label = labels.fresh(f"{first}.partial")
    shape = MemRefType(type, [size for _, size in space])
    node = NodeOp(label, "local", f"partial results of {first}", shape)
    copied, total = copies_for(reduce)
    partial = nest_of(label, space, [*copied, StoreOp(total, node.result, cells)])
    partial.location = nest.location
    take_part(partial, split, part)
    replace_reduction(reduce, node.result, cells, space[:1], type)
    remove_unused_operations(nest.body.block)
    Rewriter.insert_op(node, InsertPoint.after(nodes(func)[-1]))
    Rewriter.insert_op(partial, InsertPoint.before(nest))


def take_part(nest: NestOp, split: Split, part: str) -> None:
    """Leaves one part of a variable to the reduction of a nest."""
    (reduce,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    count = dict(reduce.space.data)[split.name] // split.parts
    inside = Linear.var(split.name) if count > 1 else Linear()
    substitute_indices(operations(nest.body.block), {split.name: Linear.of({part: count}) + inside})
    sizes = {**dict(reduce.space.data), split.name: count}
    reduce.properties["space"] = SpaceAttr(
        tuple((n, s) for n, s in sizes.items() if (n, s) != (split.name, 1))
    )


@dataclass(frozen=True)
class SplitSumsPass(ModulePass):
    """Computes contractions with few results and long sums in parts, for a GPU; a nest after it adds them up.

    So there are blocks for all processors. The number of parts depends on sizes alone, and they are added up
    in order: results do not depend on how many run at a time.
    """

    name = "split-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            labels = Names({node.label.data for node in nodes(func)})
            for nest in nests(func):
                found = find(nest)
                if found is None or not isinstance(found.reduce.result.type, Float32Type | Float64Type):
                    continue
                split = choose_split(nest, found)
                if split is not None:
                    split_sum(func, nest, found, split, labels)
