"""`turn-factors`: factors of products of TF32 are copied so that they lie along the sum, for Hopper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel.gpu import BYTES_A_CYCLE, LAUNCH_CYCLES, PROCESSORS, VECTOR_BYTES
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.names import Names, labels_of
from ocannl.passes.analysis.nests import functions, nodes, points, single_nests, variable_sizes
from ocannl.passes.analysis.patterns.contractions import Contraction, find_contraction

# The multiplications of TF32 that a multiprocessor of an H100 does in a cycle, at best.
MULTIPLICATIONS = 1024
# The part of the time of a product that a copy may take at most: where another factor lies along the sum,
# threads can load this one; where none does, products are those of warps, which take twice as long.
OF_ONE, OF_NONE = 1 / 6, 1 / 2


def factor_to_turn(nest: NestOp) -> tuple[Contraction, LoadOp] | None:
    """The factor of a product of a nest that pays to be copied."""
    found = find_contraction(nest)
    if found is None or found.reduce.accum.data != "add" or nest.schedule is not None:
        return None
    loads = [found.left, found.right]
    if any(element_type(load.node) != f32 or not is_whole(nest, load) for load in loads):
        return None
    if not isinstance(found.reduce.yielded.owner, arith.MulfOp):
        return None
    across = [load for load in loads if load.indices.data[-1] != Linear.var(found.k)]
    if not across:
        return None
    load = min(across, key=lambda load: math.prod(memref_shape(load.node)))
    size = math.prod(memref_shape(load.node))
    sides = variable_sizes(nest)
    copying = LAUNCH_CYCLES + 2 * size * element_bytes(load.node) / BYTES_A_CYCLE
    work = points(nest.space.data) * points(found.reduce.space.data) / (PROCESSORS * MULTIPLICATIONS)
    is_aligned = sides[found.k] * element_bytes(load.node) % VECTOR_BYTES == 0
    part = OF_NONE if len(across) == len(loads) else OF_ONE
    return (found, load) if is_aligned and copying <= part * work else None


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
    type = MemRefType(f32, [shape[k] for k in order])
    node = NodeOp(labels.fresh(f"{label}.turned"), "local", f"along the sum of {nest.label.data}", type)
    Rewriter.insert_op(node, InsertPoint.after(nodes(func)[-1]))
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
    """Factors of large products of TF32 that do not lie along the sum are transposed before it.

    Tensor cores of Hopper take numbers of 32 bits along the sum only, the right factor from shared memory:
    where neither lies so, as in gradients of weights, products would be those of warps. Where one does,
    threads load the other one into registers, which takes longer than a copy of a small one. A copy is made
    if it takes a small part of the time of the product.
    """

    name = "turn-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            labels = labels_of(func)
            for nest in single_nests(func):
                chosen = factor_to_turn(nest)
                if chosen is not None:
                    turn(func, nest, *chosen, labels)
