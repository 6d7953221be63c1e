"""Operands of nests in groups that several points of the group share."""

from __future__ import annotations

from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.nests import accesses, names_in, points


def points_that_share(load: LoadOp) -> int:
    """The points of the group around a load that read the same elements, which none of them writes; 1 outside
    of groups.
    """
    group = group_around(load)
    if group is None or any(isinstance(op, StoreOp) and op.node is load.node for op in accesses(group)):
        return 1
    used = names_in(load.indices.data)
    # A group without points has no nests that run.
    return max(1, points(tuple(extent for extent in group.space.data if extent[0] not in used)))


def group_around(load: LoadOp) -> GroupOp | None:
    """The group around the nest of a load, if there is one."""
    nest = load.parent_op()
    while nest is not None and not isinstance(nest, NestOp):
        nest = nest.parent_op()
    group = None if nest is None else nest.parent_op()
    return group if isinstance(group, GroupOp) else None
