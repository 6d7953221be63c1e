"""Operands of nests in groups: which points of the group share them, and where copies of them can be made."""

from __future__ import annotations

import math

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.nests import accesses, names_in, points, variable_sizes

# The bytes of the largest copy that each point of a group makes for itself.
ON_STACK = 2**20


def points_that_share(load: LoadOp) -> int:
    """The points of the group around a load that read the same elements, which none of them writes; 1 outside
    of groups.
    """
    group = group_around(load)
    if group is None or is_written(load, group):
        return 1
    used = names_in(load.indices.data)
    # A group without points has no nests that run.
    return max(1, points(tuple(extent for extent in group.space.data if extent[0] not in used)))


def is_written(load: LoadOp, group: GroupOp) -> bool:
    return any(isinstance(op, StoreOp) and op.node is load.node for op in accesses(group))


def fits_on_stack(load: LoadOp, group: GroupOp) -> bool:
    """Whether the stack has room for a copy of what one point of the group around a load reads."""
    nest = load.parent_op()
    while not isinstance(nest, NestOp):
        assert nest is not None
        nest = nest.parent_op()
    used, sizes = names_in(load.indices.data).difference(group.space.names), variable_sizes(nest)
    return element_bytes(load.node) * math.prod(sizes.get(name, 1) for name in used) <= ON_STACK


def can_be_copied(load: LoadOp) -> bool:
    """Whether an operand can be copied: before the group around it, unless its points write it; each of them
    then copies what there is room for.
    """
    group = group_around(load)
    return group is None or fits_on_stack(load, group) or not is_written(load, group)


def group_around(load: LoadOp) -> GroupOp | None:
    """The group around the nest of a load, if there is one."""
    nest = load.parent_op()
    while nest is not None and not isinstance(nest, NestOp):
        nest = nest.parent_op()
    group = None if nest is None else nest.parent_op()
    return group if isinstance(group, GroupOp) else None
