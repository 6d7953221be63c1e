"""`turn-factors`: factors of products are copied so that they lie along the sum, for Hopper."""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel.gpu import (
    BYTES_A_CYCLE,
    LAUNCH_CYCLES,
    MULTIPLICATIONS_A_CYCLE,
    PROCESSORS,
    VECTOR_BYTES,
)
from ocannl.dialects.kernel.mma import QUARTERS
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names, labels_of
from ocannl.passes.analysis.nests import functions, points, single_nests, variable_sizes
from ocannl.passes.analysis.patterns.contractions import Contraction, find_contraction, is_sum_of_products
from ocannl.passes.rewrites.declarations import declare

# The multiplications that a multiprocessor of an H100 does in a cycle, at best, of TF32; and of 8 bits where
# factors do not lie along the sum, which threads do.
MULTIPLICATIONS, QUARTER_MULTIPLICATIONS = 1024, MULTIPLICATIONS_A_CYCLE
# The part of the time of a product that a copy may take at most: where another factor lies along the sum,
# threads can load this one; where none does, products are those of warps, which take twice as long.
OF_ONE, OF_NONE = 1 / 6, 1 / 2


def factors_to_turn(nest: NestOp, tf32: bool) -> tuple[Contraction, list[LoadOp]] | None:
    """The factors of a product of a nest that pay to be copied."""
    found = find_contraction(nest)
    if found is None or nest.schedule is not None or not is_sum_of_products(found):
        return None
    loads, type = [found.left, found.right], element_type(found.left.node)
    is_quarter = isinstance(type, QUARTERS)
    if not (is_quarter or (tf32 and type == f32)) or element_type(found.right.node) != type:
        return None
    across = [load for load in loads if load.indices.data[-1] != Linear.var(found.k)]
    if not across or not all(is_whole(nest, load) for load in loads):
        return None
    turned = across if is_quarter else [min(across, key=bytes_of)]
    copying = sum(LAUNCH_CYCLES + 2 * bytes_of(load) / BYTES_A_CYCLE for load in turned)
    rate = QUARTER_MULTIPLICATIONS if is_quarter else MULTIPLICATIONS
    work = points(nest.space.data) * points(found.reduce.space.data) / (PROCESSORS * rate)
    is_aligned = variable_sizes(nest)[found.k] * element_bytes(found.left.node) % VECTOR_BYTES == 0
    part = OF_NONE if is_quarter or len(across) == len(loads) else OF_ONE
    return (found, turned) if is_aligned and copying <= part * work else None


def bytes_of(load: LoadOp) -> int:
    return math.prod(memref_shape(load.node)) * element_bytes(load.node)


def is_whole(nest: NestOp, load: LoadOp) -> bool:
    """Whether a load goes through all of a node, along each axis with a variable of its own."""
    names = [index.variable for index in load.indices.data]
    sizes = variable_sizes(nest)
    found = [None if name is None else sizes.get(name) for name in names]
    return not load.positions and len({*names}) == len(names) and found == list(memref_shape(load.node))


def turn(func: FuncOp, nest: NestOp, found: Contraction, load: LoadOp, labels: Names) -> None:
    """Copies a factor before a nest, which then loads what is copied."""
    (axis,) = [k for k, index in enumerate(load.indices.data) if index.variable == found.k]
    order = [k for k in range(len(load.indices.data)) if k != axis] + [axis]
    shape = memref_shape(load.node)
    label = load.node.owner.label.data if isinstance(load.node.owner, NodeOp) else nest.label.data
    type = MemRefType(element_type(load.node), [shape[k] for k in order])
    node = NodeOp(labels.fresh(f"{label}.turned"), "local", f"along the sum of {nest.label.data}", type)
    declare(func, node)
    indices = load.indices.data
    sizes = variable_sizes(nest)
    names = [index.names[0] for index in indices]
    value = LoadOp(load.node, indices)
    turned = tuple(indices[k] for k in order)
    space = tuple((names[k], sizes[names[k]]) for k in order)
    copy = NestOp(node.label.data, space, Region(Block([value, StoreOp(value.result, node.result, turned)])))
    derive((node, copy, *copy.body.block.ops), load.location)
    Rewriter.insert_op(copy, InsertPoint.before(nest))
    load.operands[0] = node.result
    load.properties["indices"] = MapAttr(turned)


@dataclass(frozen=True)
class TurnFactorsPass(ModulePass):
    """Factors of large products of TF32 or of 8 bits that do not lie along the sum are transposed before it.

    Tensor cores of Hopper take numbers of 8 bits along the sum only, and those of 32 bits where they read the
    right factor from shared memory: where neither lies so, as in gradients of weights, products would be of
    warps. Where one does, threads load the other one into registers, which takes longer than a copy if it is
    small. A copy is made if it takes a small part of the time of the product without it.

    Attributes:
        tf32: products of f32 may be those of TF32.
    """

    name = "turn-factors"
    tf32: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            labels = labels_of(func)
            for nest in single_nests(func):
                chosen = factors_to_turn(nest, self.tf32)
                if chosen is not None:
                    found, factors = chosen
                    for load in factors:
                        turn(func, nest, found, load, labels)
