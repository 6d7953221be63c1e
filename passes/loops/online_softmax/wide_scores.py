"""Scores of 16 bits that a kernel keeps are f32, but for the factors of products: nobody else sees them."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, MemRefType, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.contractions import find_contraction
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def widen_scores(group: GroupOp) -> None:
    """Lets the nodes of a group be f32, and leaves out the roundings between its operations."""
    factors = set[SSAValue]()
    for nest in group.nests:
        product = find_contraction(nest)
        if product is not None:
            factors |= {product.left.node, product.right.node}
    for node in group.nodes:
        if element_type(node.result) in (BFloat16Type(), Float16Type()) and node.result not in factors:
            shape = memref_shape(node.result)
            Rewriter.replace_value_with_new_type(node.result, MemRefType(f32, shape))
    for nest in group.nests:
        for op in operations(nest.body.block):
            if isinstance(op, LoadOp):
                widen_load(op)
            elif isinstance(op, StoreOp):
                widen_store(op)
        leave_out_roundings(nest)
        remove_unused_operations(nest.body.block)


def widen_load(op: LoadOp) -> None:
    """Rounds what is loaded from a node that has become f32."""
    stored = element_type(op.node)
    if stored == op.result.type or stored != f32:
        return
    wide = LoadOp(op.node, op.indices.data, positions=op.positions)
    rounded = arith.TruncFOp(wide.result, op.result.type)
    derive((wide, rounded), op.location)
    Rewriter.replace_op(op, [wide, rounded], [rounded.result])


def widen_store(op: StoreOp) -> None:
    if element_type(op.node) != f32 or op.value.type == f32:
        return
    wide = arith.ExtFOp(op.value, f32)
    derive((wide,), op.location)
    Rewriter.insert_op(wide, InsertPoint.before(op))
    op.operands[0] = wide.result


def leave_out_roundings(nest: NestOp) -> None:
    """Takes numbers of f32 in place of those that are rounded and widened again."""
    for op in operations(nest.body.block):
        if isinstance(op, arith.ExtFOp) and isinstance(op.input.owner, arith.TruncFOp):
            narrow = op.input.owner
            if narrow.input.type == op.result.type:
                Rewriter.replace_op(op, [], [narrow.input])
