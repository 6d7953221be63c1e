"""Which cells of a node are read."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp
from ocannl.passes.analysis.nests import Opaque, nests_of, node_mode, steps_using, touches


def read_ranges(func: FuncOp, node: SSAValue, but: NestOp) -> list[range]:
    """The indices along each axis between which all nests `but` one read a node; all of them where that is
    not known, where nobody reads it, and where it outlives the routine.
    """
    whole = [range(size) for size in memref_shape(node)]
    if node_mode(node) != "local":
        return whole
    found: list[list[tuple[int, int]]] = []
    for step in steps_using(func, node):
        if step is but:
            continue
        if isinstance(step, Opaque):
            return whole
        for op in [op for nest in nests_of(step) for op, used in touches(nest) if used == node]:
            if isinstance(op, LoadOp):
                ends = [index.extremes(scope_sizes(op)) for index in op.indices.data]
                known = [end for end in ends if end is not None]
                if op.positions or len(known) < len(ends):
                    return whole
                found.append(known)
    axes = list(zip(*found, strict=True))
    return [range(min(low for low, _ in axis), max(high for _, high in axis) + 1) for axis in axes] or whole
