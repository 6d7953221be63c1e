"""`narrow-nodes`: large local nodes of widened numbers are stored as these are, for a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import array_type, element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import functions
from ocannl.passes.analysis.patterns.contractions import find_contraction

# A smaller node is in the caches.
LEAST_BYTES = 2**20
BYTES = 4


@dataclass(frozen=True)
class NarrowNodesPass(ModulePass):
    """Bitwidth analysis (Stephenson, Babb and Amarasinghe, 2000), of floats: where all that a large local
    node of f32 has are numbers of 16 bits, widened, it has these, and what reads them widens them.

    Results have the same bits. Factors of products of matrices stay as they are.

    Attributes:
        least: the bytes that a node has at least.
    """

    name = "narrow-nodes"
    least: int = LEAST_BYTES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            found = [op for op in func.body.block.ops if isinstance(op, NodeOp)]
            large = [node for node in found if self.is_large(node)]
            factors = factors_of_products(func.walk()) if large else set[SSAValue]()
            for node in large:
                narrow = stored_as(node.result) if node.result not in factors else None
                if narrow is not None:
                    store_as(node.result, narrow)

    def is_large(self, node: NodeOp) -> bool:
        is_f32 = node.mode.data == "local" and element_type(node.result) == f32
        return is_f32 and math.prod(memref_shape(node.result)) * BYTES >= self.least


def factors_of_products(ops: Iterable[Operation]) -> set[SSAValue]:
    found = set[SSAValue]()
    for nest in ops:
        product = find_contraction(nest) if isinstance(nest, NestOp) else None
        if product is not None:
            found |= {product.left.node, product.right.node}
    return found


def stored_as(node: SSAValue) -> Attribute | None:
    """The type of 16 bits of all that is stored; None if there is none."""
    users = [use.operation for use in node.uses]
    if not all(isinstance(op, LoadOp | StoreOp) for op in users):
        return None
    types = {narrow_type(op.value) for op in users if isinstance(op, StoreOp)}
    return types.pop() if len(types) == 1 else None


def narrow_type(value: SSAValue) -> Attribute | None:
    """The type of 16 bits that a value is widened from."""
    if not isinstance(value.owner, arith.ExtFOp):
        return None
    type = value.owner.input.type
    return type if isinstance(type, BFloat16Type | Float16Type) else None


def store_as(node: SSAValue, type: Attribute) -> None:
    """Gives a node another element type, from which loads widen."""
    users = [use.operation for use in node.uses]
    node = Rewriter.replace_value_with_new_type(node, array_type(type, memref_shape(node)))
    for op in users:
        if isinstance(op, StoreOp):
            wide = op.value.owner
            assert isinstance(wide, arith.ExtFOp)
            op.operands[0] = wide.input
            if not wide.result.first_use:
                Rewriter.erase_op(wide)
        elif isinstance(op, LoadOp):
            load = LoadOp(node, op.indices.data, op.positions)
            wide = arith.ExtFOp(load.result, f32)
            derive((load, wide), op.location)
            Rewriter.replace_op(op, [load, wide], [wide.result])
