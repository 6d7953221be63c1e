"""Walks over nests and their accesses, and properties of index maps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeAlias, TypeGuard, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, Map, MapAttr, Space
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import (
    CollectiveOp,
    FuncOp,
    GroupOp,
    IndexOp,
    LoadOp,
    NestOp,
    ReduceOp,
    RepeatOp,
    StepOp,
    StoreOp,
)
from ocannl.dialects.loops.late_bodies import late_body
from ocannl.dialects.records import dataclass

Indexed: TypeAlias = LoadOp | StoreOp | IndexOp
Opaque: TypeAlias = RepeatOp | CollectiveOp
Step: TypeAlias = NestOp | GroupOp | Opaque
STEP_KINDS = frozenset([NestOp, GroupOp, RepeatOp, CollectiveOp])
ZERO = Linear()

# Two contractions share a nest only while they have so few evaluations: the scheduler tiles one a nest.
SMALL_REDUCTION_WORK = 4096


def functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in operations_of(module.body.block) if isinstance(op, FuncOp)]


def uncalled(module: ModuleOp) -> list[FuncOp]:
    """The functions that are no bodies of loops."""
    found = functions(module)
    if len(found) == 1:  # no function repeats itself
        return found
    bodies = {step.body.data for func in found for step in all_steps(func) if type(step) is RepeatOp}
    return [func for func in found if func.sym_name.data not in bodies]


def ungrouped(module: ModuleOp) -> list[FuncOp]:
    """The functions without groups. Passes that follow values from nest to nest run
    before groups are made.
    """
    found = functions(module)
    return [func for func in found if not any(isinstance(op, GroupOp) for op in func.body.block.ops)]


def steps(func: FuncOp) -> list[NestOp | GroupOp]:
    """The nests and groups. `type` tells them from nodes in a fraction of the time of `isinstance`."""
    return [op for op in operations_of(func.body.block) if type(op) is NestOp or type(op) is GroupOp]


def all_steps(func: FuncOp) -> list[Step]:
    """The nests, groups, loops and collectives of a function, in the order in which they run."""
    # Without `is_step`: a call for each of thousands of operations takes longer than the rest.
    found = [op for op in operations_of(func.body.block) if type(op) in STEP_KINDS]
    return cast(list[Step], found)


def steps_within(func: FuncOp) -> list[StepOp]:
    """All that runs in a function, each loop followed by the steps of its body."""
    found: list[StepOp] = []
    for step in func.steps:
        found += [step, *(steps_within(step.func) if isinstance(step, RepeatOp) else ())]
    return found


def is_step(op: Operation) -> TypeGuard[Step]:
    return type(op) in STEP_KINDS


def ungrouped_steps(func: FuncOp) -> list[NestOp | Opaque]:
    """All nests, those of groups among them, loops and collectives."""
    return [
        one for step in all_steps(func) for one in ([step] if isinstance(step, Opaque) else nests_of(step))
    ]


def nests(func: FuncOp) -> list[NestOp]:
    """All nests, those of groups among them."""
    return [nest for step in steps(func) for nest in nests_of(step)]


def single_nests(func: FuncOp) -> list[NestOp]:
    """The nests that are in no group."""
    return [step for step in steps(func) if isinstance(step, NestOp)]


def nests_of(step: NestOp | GroupOp) -> list[NestOp]:
    return [step] if isinstance(step, NestOp) else step.nests


def nodes(scope: FuncOp | GroupOp) -> list[NodeOp]:
    """The nodes that are declared directly in a function or a group."""
    return [op for op in operations_of(scope.body.block) if type(op) is NodeOp]


def operations(block: Block) -> list[Operation]:
    """The operations of a block and of the reductions in it, in the order in which they run."""
    return with_reduced(operations_of(block))


def with_reduced(ops: Iterable[Operation]) -> list[Operation]:
    """The given operations, each reduction followed by those of its body."""
    found: list[Operation] = []
    for op in ops:
        found.append(op)
        if type(op) is ReduceOp:
            found += operations(op.body.block)
    return found


def accesses(step: NestOp | GroupOp) -> list[LoadOp | StoreOp]:
    """The loads and stores of a nest or a group, in the order in which they run."""
    found: list[LoadOp | StoreOp] = []
    for nest in nests_of(step):
        _add_accesses(nest.body.block, found)
    return found


def _add_accesses(block: Block, found: list[LoadOp | StoreOp]) -> None:
    for op in operations_of(block):
        if type(op) is LoadOp or type(op) is StoreOp:
            found.append(op)
        elif type(op) is ReduceOp:
            _add_accesses(op.body.block, found)


def body_of(nest: NestOp) -> NestOp:
    """The nest, or the pattern of a body that is not made yet: the same but for nodes and origins."""
    late = late_body(nest)
    return nest if late is None else cast(NestOp, late.pattern.nest)


def touches(nest: NestOp) -> list[tuple[LoadOp | StoreOp, SSAValue]]:
    """The loads and stores of a nest, each with its node, in the order in which they run. Those of a body
    that is not made yet are those of its pattern, which are the same but for nodes and origins.
    """
    late = late_body(nest)
    if late is None:
        return [(op, op.node) for op in accesses(nest)]
    return [(op, late.nodes[op.node]) for op in late.pattern.accesses]


Cell: TypeAlias = tuple[SSAValue, Map, tuple[SSAValue, ...]]


def cell(op: LoadOp | StoreOp) -> Cell:
    """Identifies the element that an access touches at each point: equal for accesses to the same element."""
    return op.node, op.indices.data, tuple(op.positions)


def names_in(indices: Map) -> set[str]:
    return {name for index in indices for name, _ in index.terms}


def points(space: Space) -> int:
    return math.prod(size for _, size in space)


def has_points(step: NestOp | GroupOp) -> bool:
    return points(step.space.data) > 0


def reduction_work(ops: Iterable[Operation]) -> int:
    """How often the innermost bodies of the reductions among `ops` are evaluated."""
    return sum(
        points(op.space.data) * max(1, reduction_work(operations_of(op.body.block)))
        for op in ops
        if isinstance(op, ReduceOp)
    )


def declaration(node: SSAValue) -> NodeOp:
    assert isinstance(node.owner, NodeOp)
    return node.owner


def used_nodes(step: Step) -> list[SSAValue]:
    """The nodes declared outside of a step that it uses, by first use."""
    if isinstance(step, Opaque):
        return step.nodes
    if (late := late_body(step)) is not None:
        return [*late.nodes.values()]
    found = dict.fromkeys([op.node for op in accesses(step)])
    return [node for node in found if isinstance(step, NestOp) or not is_inside(node, step)]


def steps_using(func: FuncOp, node: SSAValue) -> list[Step]:
    """The steps of a function that use a node declared in it, in the order in which they run."""
    using = {step for use in node.uses if (step := step_around(func, use.operation)) is not None}
    return [step for step in all_steps(func) if step in using]


def step_around(func: FuncOp, op: Operation) -> Operation | None:
    """The operation of a function in which another one is, or which it is."""
    block, found = func.body.block, op
    while found is not None and found.parent is not block:
        found = found.parent_op()
    return found


def written_nodes(step: Step) -> list[SSAValue]:
    """The nodes that a step stores to, by first store."""
    if isinstance(step, Opaque):
        return step.written
    touched = [pair for nest in nests_of(step) for pair in touches(nest)]
    return list(dict.fromkeys([node for op, node in touched if isinstance(op, StoreOp)]))


def is_inside(node: SSAValue, step: NestOp | GroupOp) -> bool:
    """Whether a node is declared in a group."""
    return declaration(node).parent is step.body.block


def node_mode(node: SSAValue) -> str:
    return declaration(node).mode.data


def is_unused(op: Operation) -> bool:
    """Whether an operation has no effect and its results no users."""
    return gives_only_results(type(op)) and not any(r.first_use for r in op.results)


@cache
def gives_only_results(kind: type[Operation]) -> bool:
    """Whether operations of a kind have no effect but their results."""
    return issubclass(kind, LoadOp | ReduceOp) or kind.has_trait(Pure)


def covering_axes(store: StoreOp, space: Space) -> dict[str, int] | None:
    """The axis along which each variable runs, if a store is a bijection from the points of the nest to the
    elements of the node; else None.
    """
    sizes = dict(space)
    axes: dict[str, int] = {}
    for axis, (index, size) in enumerate(zip(store.indices.data, memref_shape(store.node), strict=True)):
        if size == 1:
            continue
        variable = index.variable
        if variable is None or variable in axes or sizes.get(variable) != size:
            return None
        axes[variable] = axis
    return axes if all(size == 1 or name in axes for name, size in space) else None


def substituted(indices: MapAttr, values: Mapping[str, Linear]) -> MapAttr:
    return MapAttr(tuple(index.substitute(values) for index in indices.data))


@dataclass
class Accesses:
    """The index maps at which each node is touched, each map once.

    None stands for a map that varies inside a reduction, or with a position that is found at run time.
    """

    maps: dict[SSAValue, list[Map | None]]
    read: set[SSAValue]
    written: set[SSAValue]

    @staticmethod
    def of_whole(step: GroupOp | Opaque) -> Accesses:
        """A group, a loop or a collective touches what it uses anywhere, and may read all of it."""
        nodes = used_nodes(step)
        return Accesses({node: [None] for node in nodes}, set(nodes), set(written_nodes(step)))

    @staticmethod
    def of(ops: Iterable[Operation]) -> Accesses:
        """The accesses of operations as `with_reduced` lists them."""
        accesses = Accesses({}, set(), set())
        reduced: set[str] = set()
        for op in ops:
            if type(op) is ReduceOp:
                reduced.update(op.space.names)
            elif type(op) is LoadOp or type(op) is StoreOp:
                (accesses.read if type(op) is LoadOp else accesses.written).add(op.node)
                indices = op.indices.data
                varies = bool(op.positions) or not reduced.isdisjoint(names_in(indices))
                accesses._add(op.node, None if varies else indices)
        return accesses

    def _add(self, node: SSAValue, indices: Map | None) -> None:
        known = self.maps.setdefault(node, [])
        if indices not in known:
            known.append(indices)

    def absorb(self, other: Accesses, renaming: Mapping[str, Linear]) -> None:
        """Adds the accesses of a nest whose variables are renamed."""
        self.read |= other.read
        self.written |= other.written
        for node, maps in other.maps.items():
            for indices in maps:
                self._add(node, renamed(indices, renaming))


def renamed(indices: Map | None, renaming: Mapping[str, Linear]) -> Map | None:
    return None if indices is None else tuple(index.substitute(renaming) for index in indices)


def stores_by_node(nest: NestOp) -> dict[SSAValue, list[StoreOp]]:
    found: dict[SSAValue, list[StoreOp]] = {}
    for op in operations_of(nest.body.block):
        if type(op) is StoreOp:
            found.setdefault(op.node, []).append(op)
    return found


def variable_sizes(nest: NestOp) -> dict[str, int]:
    """The sizes of all iteration variables of a nest, outermost first."""
    sizes = dict(nest.space.data)
    for op in operations(nest.body.block):
        if type(op) is ReduceOp:
            sizes.update(op.space.data)
    return sizes
