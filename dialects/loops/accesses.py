"""The accesses of the steps of a function, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from ocannl.dialects.assign.node import NodeOp
from ocannl.dialects.assign.unwritten import Access
from ocannl.dialects.index.scopes import scope_bounds, scope_sizes
from ocannl.dialects.loops.scheduled import ScheduledOp
from ocannl.dialects.loops.values import LoadOp, StoreOp
from ocannl.dialects.routine import static_ranges


def accesses_of(step: Operation) -> Iterator[Access]:
    """The accesses of nests and groups, at their index maps; of kernels, which nodes they read and write."""
    if isinstance(step, NodeOp):
        return
    for op in step.walk():
        if isinstance(op, LoadOp | StoreOp) and isinstance(op.node.owner, NodeOp):
            yield access_of(op, step)
        elif not isinstance(step, ScheduledOp):
            yield from (Access(op, node, writes=True) for node in op.operands)


def access_of(op: LoadOp | StoreOp, step: Operation) -> Access:
    """A load or a store. A node of a group is that of one of its points."""
    writes = isinstance(op, StoreOp)
    if not isinstance(step, ScheduledOp):
        return Access(op, op.node, writes)
    space = scope_sizes(op)
    around = {name: size for name, size in (static_ranges(op) or {}).items() if size is not None}
    assert isinstance(op.node.owner, NodeOp)
    if op.node.owner.parent_op() is step:
        around |= {name: space.pop(name) for name in step.space.names}
    return Access(op, op.node, writes, op.indices.data, space, around, scope_bounds(op))
