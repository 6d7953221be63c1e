"""`gather-cells`: terms that windows scatter become sums that each cell gathers, for a CPU."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import (
    accesses,
    all_steps,
    declaration,
    functions,
    node_mode,
    points,
    single_nests,
    steps_using,
    used_nodes,
)
from ocannl.passes.rewrites.gathered_cells import CellScatter, find_cell_scatter, gathering

# The terms for which more nests pay, and how many nests one becomes at most.
LARGE, PARTS = 2**16, 16
COPIED = "computed where it was copied to"


@dataclass(frozen=True)
class GatherCellsPass(ModulePass):
    """Terms that overlapping windows add to the same cells, one by one, become a sum for each cell: scatter
    to gather, by index-set splitting (Wolfe, "High Performance Compilers for Parallel Computing", 1996).

    Cells that the same offsets reach are a nest: those inside of an image, at each of its borders, and of
    each remainder where windows move by a stride. So each cell is stored once, and in any order. What would
    only be copied from the cells is computed where it would be copied to.
    """

    name = "gather-cells"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in single_nests(func):
                if points(nest.space.data) >= LARGE:
                    gather(func, nest)


def gather(func: FuncOp, nest: NestOp) -> None:
    """Replaces a scatter by nests that gather, if it is one and they are few."""
    scatter = find_cell_scatter(func, nest)
    if scatter is None or scatter.count > PARTS:
        return
    copy = only_copy(func, scatter)
    nests = gathering(scatter)
    for gathered in nests:
        Rewriter.insert_op(gathered, InsertPoint.before(nest))
    Rewriter.erase_op(nest)
    Rewriter.erase_op(scatter.reset)
    if copy is not None:
        for gathered in nests:
            store_there(gathered, copy)
        Rewriter.erase_op(copy)
        declaration(scatter.store.node).set_mode("virtual", COPIED)


def only_copy(func: FuncOp, scatter: CellScatter) -> NestOp | None:
    """The nest that copies the cells of a scatter to where nothing touches them in between, if nothing else
    reads them.
    """
    node, steps = scatter.store.node, all_steps(func)
    touching = steps_using(func, node)
    copy = touching[-1]
    if node_mode(node) != "local" or len(touching) != 3 or not isinstance(copy, NestOp) or copy.clashing:
        return None
    ops = list(copy.body.block.ops)
    if copy.schedule is not None or [type(op) for op in ops] != [LoadOp, StoreOp]:
        return None
    load, store = accesses(copy)
    between = steps[steps.index(scatter.nest) : steps.index(copy)]
    is_free = not any(store.node in used_nodes(step) for step in between)
    names = [index.names for index in load.indices.data]
    is_shifted = all(
        len(own) <= 1 and all(index.coefficient(name) == 1 for name in own)
        for own, index in zip(names, load.indices.data, strict=True)
    )
    used = sorted(name for own in names for name in own)
    is_plain = is_shifted and used == sorted(copy.space.names) and not (load.positions or store.positions)
    return copy if is_plain and is_free and load.node == node else None


def store_there(nest: NestOp, copy: NestOp) -> None:
    """Lets a nest store to where another one would copy what it stores."""
    load, target = accesses(copy)
    (store,) = (op for op in nest.body.block.ops if isinstance(op, StoreOp))
    places: Mapping[str, Linear] = {
        index.names[0]: at + Linear((), -index.constant)
        for index, at in zip(load.indices.data, store.indices.data, strict=True)
        if index.names
    }
    moved = MapAttr(tuple(index.substitute(places) for index in target.indices.data))
    nest.properties["label"] = copy.label
    node: SSAValue = target.node
    store.operands[1] = node
    store.properties["indices"] = moved
