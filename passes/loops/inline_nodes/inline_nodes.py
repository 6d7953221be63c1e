"""`inline-nodes`: values are computed where they are used instead of passing through memory."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.origins import inherit, union
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.evaluation_cost import cost_of
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import (
    Accesses,
    Opaque,
    covering_axes,
    declaration,
    nests,
    operations,
    renamed,
    stores_by_node,
    ungrouped,
    ungrouped_steps,
    with_reduced,
)
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.loops.inline_nodes.factors import widened_factors
from ocannl.passes.loops.inline_nodes.readers import LoadSite, mark_batches, versions_of
from ocannl.passes.loops.inline_nodes.worth import Producer, is_to_be_virtual, is_worthwhile, why_inlined
from ocannl.passes.rewrites.dead_stores import mark_virtual, remove_dead_stores
from ocannl.passes.rewrites.indices import Copier, drop_unit_variables, rename


def check_virtual(func: FuncOp) -> None:
    """Raises `OcannlError` for a node that has memory though the program says that it has none."""
    for nest in nests(func):
        for op in operations_of(nest.body.block):
            if isinstance(op, StoreOp) and is_to_be_virtual(op.node):
                node = declaration(op.node)
                message = (
                    f"`{node.label.data}` cannot be virtual: another reduction would repeat it, several "
                    "points accumulate in a cell of it, it is read at computed positions, by a nest with a "
                    "schedule, or after what it depends on was written"
                )
                raise OcannlError(at_line(node, message))


class Inliner:
    """Visits the nests of a function in order, with the producer of the present content of each node."""

    def __init__(self, func: FuncOp, large: int, factor_bits: int) -> None:
        self.func, self.large, self.factor_bits = func, large, factor_bits
        self.versions = versions_of(func)
        if large:
            mark_batches(self.versions)
        self.definitions: dict[SSAValue, Producer] = {}
        self.writes: dict[SSAValue, int] = {}
        self.inlined: dict[SSAValue, str] = {}

    def run(self) -> None:
        for step in ungrouped_steps(self.func):
            if isinstance(step, Opaque):
                self._overwrite(step.written)
            else:
                self._inline_into(step)
                self._define(step)

    def _define(self, nest: NestOp) -> None:
        stored = list(stores_by_node(nest).items())
        found = [d for node, found in stored if (d := self._definition(nest, node, found)) is not None]
        self._overwrite(node for node, _ in stored)
        for definition in found:
            self.definitions[definition.store.node] = definition

    def _overwrite(self, stored: Iterable[SSAValue]) -> None:
        for node in stored:
            self.writes[node] = self.writes.get(node, 0) + 1
            self.definitions.pop(node, None)

    def _definition(self, nest: NestOp, node: SSAValue, stored: list[StoreOp]) -> Producer | None:
        axes = covering_axes(stored[0], nest.space.data)
        if len(stored) > 1 or axes is None:
            return None
        ops = slice_in(nest.body.block, [stored[0].value])
        accesses = Accesses.of(with_reduced(ops))
        stamps = {read: self.writes.get(read, 0) for read in accesses.read}
        cost = cost_of(ops, nest.space.data, stored[0].value)
        return Producer(nest, stored[0], axes, ops, cost, self.versions[nest, node], accesses, stamps)

    def _inline_into(self, nest: NestOp) -> None:
        """A nest with a schedule stays as it is: that is of the accesses that it has."""
        if nest.schedule is not None:
            return
        body = operations(nest.body.block)
        if not any(isinstance(op, LoadOp) and op.node in self.definitions for op in body):
            return
        factors = widened_factors(nest, self.definitions, self.factor_bits)
        rewriter = NestInliner(self.func, nest, self.inlined, self.large, factors)
        stored: set[SSAValue] = set()
        for op in body:
            if isinstance(op, StoreOp):
                stored.add(op.node)
            elif isinstance(op, LoadOp) and op.node in self.definitions and op.node not in stored:
                definition = self.definitions[op.node]
                if self._is_current(definition, stored):
                    rewriter.inline(definition, op)
        nest.location = union(nest.location, *rewriter.sources)

    def _is_current(self, definition: Producer, stored: set[SSAValue]) -> bool:
        """Whether nothing that the producer reads has been written since."""
        stamps = definition.stamps
        return all(self.writes.get(node, 0) == stamps[node] and node not in stored for node in stamps)


class NestInliner:
    """Replaces loads of one nest by the computations of their values, and adds their nodes to `inlined`."""

    def __init__(
        self, func: FuncOp, nest: NestOp, inlined: dict[SSAValue, str], large: int, factors: set[SSAValue]
    ) -> None:
        self.func, self.large, self.factors = func, large, factors
        self.nest = nest
        self.inlined = inlined
        self.stored = stores_by_node(nest)
        self.in_turn = bool(nest.clashing)
        self.known: dict[tuple[Block, SSAValue, Map], SSAValue] = {}
        self.names: Names | None = None
        self.sources: list[LocationAttr] = []
        """The origins of what was inlined."""

    def inline(self, definition: Producer, load: LoadOp) -> None:
        """Replaces a load if that is legal and pays. Loads at positions found at run time stay."""
        if load.positions or (self.in_turn and load.node in self.stored):
            return
        site = LoadSite.of(load, self.nest)
        variables = definition.variables_at(load.indices.data)
        is_factor = load.node in self.factors
        if not is_factor and not is_worthwhile(definition, site, self.nest, self.large):
            return
        if not self._is_safe(definition, variables):
            return
        block = site.anchor.parent
        assert block is not None
        key = (block, load.node, load.indices.data)
        if key not in self.known:
            self.known[key] = self._compute(definition, variables, site.anchor, block)
        load.result.replace_all_uses_with(self.known[key])
        inherit(self.known[key], load)
        why = "tensor cores multiply what is widened" if is_factor else why_inlined(definition)
        self.inlined[load.node] = f"computed where it is used: {why}"
        Rewriter.erase_op(load)

    def _is_safe(self, definition: Producer, variables: dict[str, Linear]) -> bool:
        """Whether the points of the nest stay independent: nodes that it stores to are read at the same point
        only, and none where several points store to a cell.
        """
        for node in definition.accesses.read:
            for store in self.stored.get(node, ()):
                if self.in_turn:
                    return False
                for indices in definition.accesses.maps[node]:
                    if renamed(indices, variables) != store.indices.data:
                        return False
        return True

    def _compute(
        self, definition: Producer, variables: dict[str, Linear], anchor: Operation, block: Block
    ) -> SSAValue:
        """Inserts the value at a site. Operations without other users are moved, which
        costs half of a copy.
        """
        if self.names is None:
            self.names = Names.of(self.func, self.nest)
        self.sources.append(definition.nest.location)
        if definition.is_for_one_load:
            for op in definition.ops:
                op.detach()
            rename(definition.ops, self.names, variables)
            block.insert_ops_before(definition.ops, anchor)
            value = definition.store.value
            Rewriter.erase_op(definition.nest)
            return value
        copier = Copier(self.names, variables)
        block.insert_ops_before([copier.copy(op) for op in definition.ops], anchor)
        return copier.values[definition.store.value]


@dataclass(frozen=True)
class InlineNodesPass(ModulePass):
    """Inlines producers into their consumers: a load is replaced by the computation of the loaded value, as
    by Halide's `compute_inline` (Ragan-Kelley et al., 2013). Nodes that then need no memory become `virtual`.

    It applies to a load where one nest has computed the whole node, each element at the point of its own, and
    nothing that this nest reads has been written since. Constants, copies and slices are always inlined;
    cheap scalar bodies where that costs neither memory traffic nor repetition inside a reduction; costly
    bodies and reductions only at their only reader, and if they are evaluated no more often than before.

    Attributes:
        large: functions of one array are computed by all readers, where as many bytes would be stored, but
            weights of attention, which `online-softmax` looks for; 0 for never.
        factor_bits: products of factors that are both widened from one type, of so many bits at least, are of
            that type; 0 for none.
    """

    name = "inline-nodes"
    large: int = 0
    factor_bits: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            for nest in nests(func):
                drop_unit_variables(nest)
            remove_dead_stores(func)
            inliner = Inliner(func, self.large, self.factor_bits)
            inliner.run()
            remove_dead_stores(func)
            mark_virtual(func, inliner.inlined)
            check_virtual(func)
