"""Whether a value is computed where it is used, or stored and loaded."""

from __future__ import annotations

import itertools
import math

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.evaluation_cost import EvaluationCost
from ocannl.passes.analysis.nests import (
    SMALL_REDUCTION_WORK,
    ZERO,
    Accesses,
    declaration,
    node_mode,
    points,
    reduction_work,
)
from ocannl.passes.loops.inline_nodes.readers import LoadSite, Version

# A body up to this cost, that of a division, takes no longer than to store and load its value.
CHEAP = 6
# Longer bodies are not copied, as a chain of them would be copied again and again; they are fused instead.
LONGEST_BODY = 32
# A body up to this cost, that of a function of one array, is read from no memory that caches do not hold.
ONE_FUNCTION = 48


@dataclass(slots=True)
class Producer:
    """A store that covers a node, with the backward slice of its value: how the content of the node is
    computed.
    """

    nest: NestOp
    store: StoreOp
    axes: dict[str, int]
    ops: list[Operation]
    cost: EvaluationCost
    version: Version
    accesses: Accesses
    stamps: dict[SSAValue, int]
    """How often each node that is read had been written before."""

    @property
    def is_for_one_load(self) -> bool:
        """Whether the nest does nothing but compute the value of a single load."""
        node, version = self.store.node, self.version
        if version.kept or version.readers > 1 or node_mode(node) != "local":
            return False
        has_two_uses = len(list(itertools.islice(node.uses, 3))) == 2
        return has_two_uses and len(operations_of(self.nest.body.block)) == len(self.ops) + 1

    def variables_at(self, indices: Map) -> dict[str, Linear]:
        """The values of the nest's variables at the point that computes the element at `indices`."""
        space = self.nest.space.names
        return {name: indices[self.axes[name]] if name in self.axes else ZERO for name in space}


def is_worthwhile(definition: Producer, site: LoadSite, nest: NestOp, large: int = 0) -> bool:
    """Whether computing a value at a site costs no more than to store and load it; nodes of `large` bytes are
    in no cache, unless that is 0.
    """
    cost, version = definition.cost, definition.version
    multiplied = site.evaluations > points(definition.nest.space.data)
    if is_to_be_virtual(definition.store.node):
        return not (cost.reduction_work and site.in_reduction and multiplied)
    if len(definition.ops) > LONGEST_BODY:
        return False
    if version.kept or cost.is_free:
        return cost.is_free
    if cost.reduction_work:
        return _takes_reduction(definition, site, nest) and not multiplied
    if site.repeats(points(definition.nest.space.data)):
        return False
    if cost.converts and not large and site.converts_for_few(points(definition.nest.space.data)):
        return False
    if cost.operations <= CHEAP:
        # Reading the operands at every site is no more traffic than one store, and one load a site.
        # One load is less traffic than those of the operands, where the value is stored all the same.
        if version.is_stored and not multiplied and cost.arrays > 1:
            return False
        return (version.readers - 1) * (cost.arrays - 1) <= 2
    if multiplied or version.readers == 1:
        return not multiplied and not site.is_searched
    is_large = (
        0 < large <= math.prod(memref_shape(definition.store.node)) * element_bytes(definition.store.node)
    )
    is_kept = version.is_stored or version.in_batch
    return is_large and not is_kept and cost.arrays <= 1 and cost.operations <= ONE_FUNCTION


def why_inlined(definition: Producer) -> str:
    """Why it is worthwhile to compute a value where it is used, in words."""
    cost = definition.cost
    if is_to_be_virtual(definition.store.node):
        return "the program says so"
    if cost.is_free:
        return "it costs nothing"
    if cost.reduction_work:
        return "its sum has one reader"
    if definition.version.readers > 1 and cost.operations > CHEAP:
        return "no cache holds it"
    if cost.operations <= CHEAP:
        return "it takes no longer than to store and load it"
    return "one nest reads it, no more often than it is computed"


def is_to_be_virtual(node: SSAValue) -> bool:
    """Whether the program says that a node has no memory, whatever it costs."""
    return declaration(node).always_inline is not None


def _takes_reduction(definition: Producer, site: LoadSite, nest: NestOp) -> bool:
    """Whether a reduction moves to its only reader: nests keep to one contraction unless both are small, and
    those of single numbers always, since equal layers would differ.
    """
    if definition.version.readers != 1 or site.in_reduction:
        return False
    own = reduction_work(nest.body.block.ops)
    work = (own + definition.cost.reduction_work) * points(nest.space.data)
    return own == 0 or (len(nest.space.data) > 0 and work <= SMALL_REDUCTION_WORK)
