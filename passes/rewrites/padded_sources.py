"""A node that is copied to where it has zeros around is computed there at once."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.nests import (
    accesses,
    all_steps,
    covering_axes,
    declaration,
    node_mode,
    steps_using,
    written_nodes,
)

COPIED = "computed where it has zeros around"


def compute_in_place(func: FuncOp, reset: NestOp, copy: NestOp) -> None:
    """Lets the nest that computes a local node store where another nest would copy it, into a node that a
    third one resets, and lets all that read it read from there; if that is all that is done with it.
    """
    load, store = (op for op in copy.body.block.ops if isinstance(op, LoadOp | StoreOp))
    assert isinstance(load, LoadOp)
    assert isinstance(store, StoreOp)
    writer = only_writer(func, load.node)
    if writer is None:
        return
    target = store.node
    moved = [Linear((), index.constant) for index in store.indices.data]
    reset.detach()
    Rewriter.insert_op(reset, InsertPoint.before(writer))
    source = load.node
    Rewriter.erase_op(copy)
    for step in all_steps(func):
        for op in accesses(step) if isinstance(step, NestOp) else ():
            if op.node == source:
                op.operands[0 if isinstance(op, LoadOp) else 1] = target
                places = zip(op.indices.data, moved, strict=True)
                op.properties["indices"] = MapAttr(tuple(index + by for index, by in places))
    declaration(source).set_mode("virtual", COPIED)


def only_writer(func: FuncOp, node: SSAValue) -> NestOp | None:
    """The nest that stores to each cell of a local node once, if no other one does, and nothing but nests
    touches it, at places that are known.
    """
    touching = steps_using(func, node)
    nests = [step for step in touching if isinstance(step, NestOp)]
    writers = [step for step in nests if node in written_nodes(step)]
    if node_mode(node) != "local" or len(nests) < len(touching) or len(writers) != 1:
        return None
    (writer,) = writers
    touched = [op for step in nests for op in accesses(step) if op.node == node]
    stores = [op for op in touched if isinstance(op, StoreOp)]
    is_known = len(stores) == 1 and not any(op.positions for op in touched)
    if not is_known or covering_axes(stores[0], writer.space.data) is None:
        return None
    return writer if touched[0] is stores[0] and not writer.clashing else None
