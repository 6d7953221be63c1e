"""A check that the points of a group are independent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.dependences import check_own_reads
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.scopes import scope_bounds, scope_sizes
from ocannl.dialects.loops.scheduled import ScheduledOp
from ocannl.dialects.loops.values import LoadOp, StoreOp


def check_points(group: ScheduledOp, own: Collection[SSAValue], nests: Sequence[ScheduledOp]) -> None:
    """Checks that no point of a group reads or sets an element that another one sets, of a node that is not
    its `own`. A store that all points of a variable do alike is one for them, which are in turn.
    """
    accesses = [
        op for nest in nests for op in nest.walk() if isinstance(op, LoadOp | StoreOp) and op.node not in own
    ]
    around = dict(group.space.data)
    for store in (op for op in accesses if isinstance(op, StoreOp)):
        for other in (op for op in accesses if op.node == store.node and op is not store):
            sizes = scope_sizes(other)
            own_names = {name: f"{name}'" for name in sizes if name not in around}
            space = scope_sizes(store) | {own_names.get(name, name): size for name, size in sizes.items()}
            own_places = {name: Linear.var(to) for name, to in own_names.items()}
            accessed = tuple(index.substitute(own_places) for index in other.indices.data)
            does = "reads" if isinstance(other, LoadOp) else "sets"
            inner = [Bound(bound.index.substitute(own_places), bound.below) for bound in scope_bounds(other)]
            bounds = [*scope_bounds(store), *inner]
            check_own_reads(store.indices.data, accessed, space, around.keys(), does, bounds)
