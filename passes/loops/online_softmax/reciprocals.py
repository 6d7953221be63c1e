"""Divisions by the sum of a row, in groups that come later: products with reciprocals that a nest keeps."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, MemRefType, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import operations
from ocannl.passes.rewrites.declarations import declare


def keep_reciprocals(func: FuncOp, sums: Sequence[NestOp], groups: Sequence[GroupOp]) -> None:
    """Multiplies by the reciprocals of sums of f32 in place of dividing each score by them. `sums` are the
    nests that store these.
    """
    for nest in sums:
        stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
        if len(stores) != 1 or element_type(stores[0].node) != f32:
            continue
        divisions = [
            op
            for group in groups
            for inner in group.nests
            for op in operations(inner.body.block)
            if isinstance(op, arith.DivfOp) and isinstance(load := op.rhs.owner, LoadOp)
            if load.node is stores[0].node
        ]
        if divisions:
            kept = reciprocals(func, nest, stores[0].node)
            for division in divisions:
                multiply(division, kept.result)


def reciprocals(func: FuncOp, nest: NestOp, sums: SSAValue) -> NodeOp:
    """A node with the reciprocals of sums, which a nest stores just after these."""
    label = labels_of(func).fresh(f"{nest.label.data}.reciprocal")
    node = NodeOp(
        label, "local", "reciprocals, of which many scores have one", MemRefType(f32, memref_shape(sums))
    )
    declare(func, node)
    made = nest.clone()
    (store,) = [op for op in made.body.block.ops if isinstance(op, StoreOp)]
    one = arith.ConstantOp(FloatAttr(1.0, f32))
    reciprocal = arith.DivfOp(one.result, store.value)
    Rewriter.replace_op(
        store, [one, reciprocal, StoreOp(reciprocal.result, node.result, store.indices.data)], []
    )
    derive((node, *made.body.block.ops), nest.location)
    Rewriter.insert_op(made, InsertPoint.after(nest))
    return node


def multiply(division: arith.DivfOp, kept: SSAValue) -> None:
    """Multiplies by what is kept of a divisor in place of a division."""
    load = division.rhs.owner
    assert isinstance(load, LoadOp)
    loaded = LoadOp(kept, load.indices.data)
    product = arith.MulfOp(division.lhs, loaded.result)
    derive((loaded, product), division.location)
    Rewriter.replace_op(division, [loaded, product], [product.result])
    if not list(load.result.uses):
        Rewriter.erase_op(load)
