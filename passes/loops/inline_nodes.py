"""`inline-nodes`: values are computed where they are used instead of passing through memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.origins import inherit, union
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.passes.analysis.costs.evaluation_cost import EvaluationCost, cost_of
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import (
    SMALL_REDUCTION_WORK,
    ZERO,
    Accesses,
    Opaque,
    covering_axes,
    declaration,
    names_in,
    nests,
    node_mode,
    operations,
    points,
    reduction_work,
    renamed,
    stores_by_node,
    ungrouped,
    ungrouped_steps,
    with_reduced,
)
from ocannl.passes.analysis.patterns.one_hot import chosen, placing
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.rewrites.dead_stores import mark_virtual, remove_dead_stores
from ocannl.passes.rewrites.indices import Copier, drop_unit_variables, rename

# A body up to this cost, that of a division, takes no longer than to store and load its value.
CHEAP = 6
# Longer bodies are not copied, as a chain of them would be copied again and again; they are fused instead.
LONGEST_BODY = 32
# A body up to this cost, that of a function of one array, is read from no memory that caches do not hold.
ONE_FUNCTION = 48
# So many numbers at least, each converted from an integer for so many points at most, are converted before:
# their own nest has vectors of numbers where its reader has one number for a vector.
CONVERTED, FEW_POINTS = 256, 64


@dataclass(slots=True)
class Version:
    """The content that a nest leaves in a node: the sites that read it, and whether it has to be in memory
    anyway.

    `copies` are nests that only copy it to another node. `repeated` tells that a reduction reads it more
    often than it is computed, and `in_batch` that products within a batch are made of it, as attention's are.
    """

    points: int
    sites: set[tuple[NestOp, Map]] = field(default_factory=set[tuple[NestOp, Map]])
    copies: list[Version] = field(default_factory=list["Version"])
    kept: bool = True
    repeated: bool = False
    in_batch: bool = False

    @property
    def readers(self) -> int:
        """The number of reading sites; those of a copy count for it."""
        return len(self.sites) + sum(copy.readers for copy in self.copies)

    @property
    def is_stored(self) -> bool:
        """Whether the content, or a copy, is in memory whatever is decided for one reader."""
        return self.kept or self.repeated or any(copy.is_stored for copy in self.copies)


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


@dataclass(frozen=True, slots=True)
class LoadSite:
    """A load: the operation before which its value can be computed, and how often that runs."""

    load: LoadOp
    anchor: Operation
    evaluations: int
    in_reduction: bool
    is_scalar: bool
    """Whether the value is the same along the innermost variable around the load."""
    is_searched: bool
    """Whether cells search for what is loaded, each of which one of them finds."""

    @staticmethod
    def of(load: LoadOp, nest: NestOp) -> LoadSite:
        """The site of a load; an invariant value is computed before the reductions around it."""
        names = names_in(load.indices.data)
        anchor: Operation = load
        evaluations, in_reduction = 1, False
        inner: Operation = load
        parent = load.parent_op()
        innermost = (parent if isinstance(parent, ReduceOp) else nest).space.names[-1:]
        while isinstance(parent, ReduceOp):
            if in_reduction or not names.isdisjoint(parent.space.names):
                if not in_reduction:
                    anchor = inner
                in_reduction = True
                # What a reduction searches for, it reads once.
                found = {one_hot.variable for one_hot in chosen(parent)}
                evaluations *= points(tuple(d for d in parent.space.data if d[0] not in found))
            inner, parent = parent, parent.parent_op()
        if not in_reduction:
            anchor = inner
        is_scalar = names.isdisjoint(innermost)
        own, searching = nest.space.data, set[str]()
        if isinstance(inner, ReduceOp):
            searching = {one_hot.variable for one_hot in placing(inner, dict(own))}
        evaluations *= points(tuple(d for d in own if d[0] not in searching))
        return LoadSite(load, anchor, evaluations, in_reduction, is_scalar, bool(searching))

    def repeats(self, points: int) -> bool:
        """Whether a reduction would compute the value more than `points` times."""
        return self.in_reduction and self.evaluations > points

    def converts_for_few(self, points: int) -> bool:
        """Whether a value of so many points, if it is converted from integers, is converted in vectors before
        rather than alone at each of these.
        """
        return self.is_scalar and points >= CONVERTED and points < self.evaluations <= FEW_POINTS * points


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


def check_virtual(func: FuncOp) -> None:
    """Raises `OcannlError` for a node that has memory though the program says that it has none."""
    for nest in nests(func):
        for op in operations_of(nest.body.block):
            if isinstance(op, StoreOp) and is_to_be_virtual(op.node):
                node = declaration(op.node)
                message = (
                    f"`{node.label.data}` cannot be virtual: another reduction would repeat it, several "
                    "points accumulate in a cell of it, it is read at computed positions, or after what it "
                    "depends on was written"
                )
                raise OcannlError(at_line(node, message))


def _takes_reduction(definition: Producer, site: LoadSite, nest: NestOp) -> bool:
    """Whether a reduction moves to its only reader: nests keep to one contraction unless both are small, and
    those of single numbers always, since equal layers would differ.
    """
    if definition.version.readers != 1 or site.in_reduction:
        return False
    own = reduction_work(nest.body.block.ops)
    work = (own + definition.cost.reduction_work) * points(nest.space.data)
    return own == 0 or (len(nest.space.data) > 0 and work <= SMALL_REDUCTION_WORK)


def versions_of(func: FuncOp) -> dict[tuple[NestOp, SSAValue], Version]:
    """The content that each nest leaves in each node that it stores to."""
    versions: dict[tuple[NestOp, SSAValue], Version] = {}
    current: dict[SSAValue, Version] = {}
    for nest in ungrouped_steps(func):
        if isinstance(nest, Opaque):
            # What a loop or a collective is given stays in memory, whoever reads it later.
            for node in nest.nodes:
                current.pop(node, None)
            continue
        ops, size = operations(nest.body.block), points(nest.space.data)
        copied: Version | None = None
        for op in ops:
            if isinstance(op, LoadOp) and op.node in current:
                version = current[op.node]
                if is_local_copy(ops) and size == version.points:
                    copied = version
                else:
                    version.sites.add((nest, op.indices.data))
                    version.repeated = version.repeated or LoadSite.of(op, nest).repeats(version.points)
            elif isinstance(op, StoreOp):
                if op.node in current and covering_axes(op, nest.space.data) is not None:
                    current[op.node].kept = False
                current[op.node] = versions[nest, op.node] = Version(size)
                if copied is not None:
                    copied.copies.append(current[op.node])
    for node, version in current.items():
        version.kept = node_mode(node) != "local"
    return versions


def mark_batches(versions: dict[tuple[NestOp, SSAValue], Version]) -> None:
    """Finds what products within a batch sum up, itself or as what nests make of it, point by point."""
    made: dict[NestOp, list[Version]] = {}
    for (nest, _), version in versions.items():
        made.setdefault(nest, []).append(version)
    for (_, node), version in reversed(versions.items()):
        version.in_batch = any(copy.in_batch for copy in version.copies) or any(
            any(later.in_batch for later in made.get(nest, ()) if later.points == version.points)
            or any(
                is_in_batch(op)
                for op in operations(nest.body.block)
                if isinstance(op, LoadOp) and op.node == node
            )
            for nest, _ in version.sites
        )


def is_in_batch(load: LoadOp) -> bool:
    """Whether products with an array are summed up that has axes of the result in common with what is loaded,
    and axes of its own, as the values have for which attention has weights.
    """
    reduction, own = load.parent_op(), names_in(load.indices.data)
    if not isinstance(reduction, ReduceOp):
        return False
    summed = set(reduction.space.names)
    loads = [op for op in operations(reduction.body.block) if isinstance(op, LoadOp)]
    others = [names_in(op.indices.data) for op in loads]
    return any((own & other) - summed and own & other & summed and other - own for other in others)


def is_local_copy(ops: Sequence[Operation]) -> bool:
    """Whether a nest does nothing but load a value and store it to a local node."""
    return len(ops) == 2 and isinstance(ops[1], StoreOp) and node_mode(ops[1].node) == "local"


class Inliner:
    """Visits the nests of a function in order, with the producer of the present content of each node."""

    def __init__(self, func: FuncOp, large: int) -> None:
        self.func, self.large = func, large
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
        body = operations(nest.body.block)
        if not any(isinstance(op, LoadOp) and op.node in self.definitions for op in body):
            return
        rewriter = NestInliner(self.func, nest, self.inlined, self.large)
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

    def __init__(self, func: FuncOp, nest: NestOp, inlined: dict[SSAValue, str], large: int) -> None:
        self.func, self.large = func, large
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
        if not is_worthwhile(definition, site, self.nest, self.large) or not self._is_safe(
            definition, variables
        ):
            return
        block = site.anchor.parent
        assert block is not None
        key = (block, load.node, load.indices.data)
        if key not in self.known:
            self.known[key] = self._compute(definition, variables, site.anchor, block)
        load.result.replace_all_uses_with(self.known[key])
        inherit(self.known[key], load)
        self.inlined[load.node] = f"computed where it is used: {why_inlined(definition)}"
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
    """

    name = "inline-nodes"
    large: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            for nest in nests(func):
                drop_unit_variables(nest)
            remove_dead_stores(func)
            inliner = Inliner(func, self.large)
            inliner.run()
            remove_dead_stores(func)
            mark_virtual(func, inliner.inlined)
            check_virtual(func)
