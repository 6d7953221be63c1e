"""Arrays that are not in the caches when a routine begins."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.loops import FuncOp, LoadOp
from ocannl.passes.analysis.nests import declaration, nodes

# Of arrays of fewer bytes the last cache is near enough, unless a routine is given as many in arrays of at
# least PART.
FAR, PART = 2**23, 2**18


def is_far(op: LoadOp) -> bool:
    """Whether a load is from an array that is not in the caches when a routine begins, by the bytes of the
    arrays that it was given.
    """
    if array_bytes(op.node) < PART:
        return False
    total, func = 0, declaration(op.node).parent_op()
    for node in nodes(func) if isinstance(func, FuncOp) else ():
        if node.mode.data in ("virtual", "local"):
            continue
        size = array_bytes(node.result)
        total += size if size >= PART else 0
        if total >= FAR:
            return True
    return False


def array_bytes(node: SSAValue) -> int:
    return math.prod(memref_shape(node)) * element_bytes(node)
