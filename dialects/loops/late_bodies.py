"""Bodies of nests that are made when something looks at them: those of equal layers, which hardly anything
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import cast

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, Region, SSAValue, Use

from ocannl.dialects.ir.late_locations import locate_late
from ocannl.dialects.ir.op_helpers import block_copied, copied
from ocannl.dialects.loops.values import LoadOp, StoreOp

Locations = Callable[[LocationAttr], LocationAttr]


class Pattern:
    """A nest that late bodies are copies of. It stands in no function, and nothing changes it: `own` are the
    nodes that stand there for those of the nest.
    """

    def __init__(self, nest: Operation, nodes: Mapping[SSAValue, SSAValue]) -> None:
        self.nest = copied(nest, {**nodes})
        self.own = [*nodes.values()]

    @cached_property
    def accesses(self) -> list[LoadOp | StoreOp]:
        """The loads and stores, in the order in which they run."""
        return [op for op in self.nest.walk() if isinstance(op, LoadOp | StoreOp)]


class LateBody:
    """The body that a nest gets: a copy of a pattern's, with other `nodes` and locations. Until then, the
    nest itself counts as the user of the nodes.
    """

    def __init__(
        self, nest: Operation, pattern: Pattern, nodes: Mapping[SSAValue, SSAValue], locations: Locations
    ) -> None:
        self.pattern, self.nodes, self.locations = pattern, nodes, locations
        self.uses = [(node, Use(nest, place)) for place, node in enumerate(nodes.values())]
        for node, use in self.uses:
            node.add_use(use)

    def give(self, nest: Operation) -> None:
        """Makes the body."""
        for node, use in self.uses:
            node.remove_use(use)
        (region,) = self.pattern.nest.regions
        nest.add_region(Region(block_copied(region.block, {**self.nodes}, self.locations)))


class LateRegions:
    """The regions of an operation: who asks gets the late body made. Regions that are made are in the
    dictionary of the operation, which Python looks up before this.
    """

    def __get__(self, op: Operation | None, owner: type[Operation] | None = None) -> tuple[Region, ...]:
        body: LateBody | None = None if op is None else vars(op).pop("late_body", None)
        if op is None or body is None:
            return ()
        body.give(op)
        return op.regions


LATE_REGIONS = cast(tuple[Region, ...], LateRegions())


def late_body(step: Operation) -> LateBody | None:
    """The body that a step has not yet."""
    return vars(step).get("late_body")


def late_copy(pattern: Pattern, nodes: Mapping[SSAValue, SSAValue], locations: Locations) -> Operation:
    """A copy of a pattern with other nodes and locations; its body and its location are made when something
    looks at them.
    """
    nest = pattern.nest
    copy = type(nest).__new__(type(nest))
    copy.properties, copy.attributes = nest.properties.copy(), nest.attributes.copy()
    locate_late(copy, partial(locations, nest.location))
    vars(copy)["late_body"] = LateBody(copy, pattern, nodes, locations)
    return copy
