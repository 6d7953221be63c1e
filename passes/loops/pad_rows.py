"""`pad-rows`: rows of large local nodes are aligned in memory, for a GPU."""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import array_type, element_bytes, element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel.gpu import SECTOR_BYTES, VECTOR_BYTES
from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import functions

# A row of fewer bytes grows too much, and a smaller node is in the caches.
LEAST_ROW, LEAST_BYTES = 32 * VECTOR_BYTES, 2**20


@dataclass(frozen=True)
class PadRowsPass(ModulePass):
    """Large local nodes whose rows are no multiple of 16 bytes get longer rows, of whole sectors: an aligned
    leading dimension.

    Hardware copies only tiles of aligned rows by itself (TMA), and threads access 16 bytes at a time there.
    Nobody reads what is added.

    Attributes:
        least: the bytes that a node has at least.
    """

    name = "pad-rows"
    least: int = LEAST_BYTES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for node in [op for op in func.body.block.ops if isinstance(op, NodeOp)]:
                if (columns := self.padded(node)) is not None:
                    pad(node, columns)

    def padded(self, node: NodeOp) -> int | None:
        """The columns that a node gets, None if it stays as it is."""
        value, shape = node.result, memref_shape(node.result)
        if node.mode.data != "local" or len(shape) < 2 or not all(map(is_access, value.uses)):
            return None
        bytes, columns = element_bytes(value), shape[-1]
        if columns * bytes < LEAST_ROW or math.prod(shape) * bytes < self.least:
            return None
        is_aligned, step = columns * bytes % VECTOR_BYTES == 0, SECTOR_BYTES // bytes
        return None if is_aligned else -(-columns // step) * step


def is_access(use: Use) -> bool:
    """Whether a node is used element by element, at indices that are below its sizes."""
    return isinstance(use.operation, LoadOp | StoreOp)


def pad(node: NodeOp, columns: int) -> None:
    """Gives the rows of a node so many columns."""
    type = array_type(element_type(node.result), (*memref_shape(node.result)[:-1], columns))
    new = NodeOp(node.label.data, "local", node.why.data, type)
    new.result.name_hint = node.result.name_hint
    derive([new], node.location)
    Rewriter.insert_op(new, InsertPoint.before(node))
    node.result.replace_all_uses_with(new.result)
    Rewriter.erase_op(node)
