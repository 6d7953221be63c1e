"""The interface of a compiled routine: its arguments, and the nodes that it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.assign.node import KEPT
from ocannl.dialects.index.splits import SplitAxis, whole_sizes
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.loops import CollectiveOp, FuncOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.precisions import dtype_name
from ocannl.lowering.arena import has_own_memory
from ocannl.lowering.entry import EntryLayout, collectives, entry_layout
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.dataflow.routine_facts import RoutineFacts, routine_facts
from ocannl.passes.analysis.nests import declaration, nodes, uncalled


@dataclass(frozen=True)
class NodeFacts:
    """The array of a node: its sizes, its NumPy dtype by name; why the node has memory, and whether it is a
    copy that the routine keeps; the axes of which it is one rank's part; and the stages that have it, none
    where all do.
    """

    shape: tuple[int, ...]
    dtype: str
    why: str
    is_kept: bool = False
    splits: tuple[SplitAxis, ...] = ()
    stages: tuple[int, ...] = ()

    @property
    def whole(self) -> tuple[int, ...]:
        """The sizes of the node on all ranks together."""
        return whole_sizes(self.shape, self.splits)


@dataclass(frozen=True)
class Exchange:
    """A collective: what ranks along an axis of the mesh do with the bytes that each has in the source; and
    the user's line. A message has a number, and the rank along the axis to or from which it goes. The phase
    is `start` or `wait` where these are two steps, and else empty.
    """

    kind: str
    mesh: str
    bytes: int
    line: str
    message: tuple[int, int] | None = None
    phase: str = ""


@dataclass(frozen=True)
class Interface:
    """The name of a routine, the slots of its arguments, the ranges of its static indices, the nodes that it
    reads and writes, the nodes with memory of their own by label; the mesh that it is for, with the
    collectives by number. One of several stages has what any of these has, and their interfaces.
    """

    name: str
    layout: EntryLayout
    ranges: Mapping[str, int | None]
    facts: RoutineFacts
    nodes: Mapping[str, NodeFacts]
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    exchanges: tuple[Exchange, ...] = ()
    stages: tuple[Interface, ...] = ()

    @staticmethod
    def of_module(module: ModuleOp) -> Interface:
        """The interface of a module with one routine, or with that of each stage."""
        return joined([Interface.of(func) for func in uncalled(module)])

    @staticmethod
    def of(func: FuncOp) -> Interface:
        """The interface of a scheduled routine."""
        facts = {
            node.label.data: NodeFacts(
                node.result.type.get_shape(),
                dtype_name(node.result.type.element_type),
                node.why.data,
                node.mode.data == KEPT,
                () if node.splits is None else node.splits.data,
            )
            for node in nodes(func)
            if has_own_memory(node)
        }
        module = func.parent_op()
        assert isinstance(module, ModuleOp)
        return Interface(
            func.sym_name.data,
            entry_layout(func),
            {name: size for name, size in func.ranges.items() if name not in func.rank_sizes},
            routine_facts(func),
            facts,
            func.mesh_sizes,
            tuple(map(_exchange, collectives(module))),
        )


def joined(stages: Sequence[Interface]) -> Interface:
    """The interface of a routine with the interfaces of its stages."""
    first, *others = stages
    if not others:
        return first
    nodes: dict[str, NodeFacts] = {}
    for own in stages:
        nodes |= own.nodes
    for label, facts in nodes.items():
        holders = tuple([number for number, own in enumerate(stages) if label in own.nodes])
        nodes[label] = replace(facts, stages=holders if len(holders) < len(stages) else ())
    layouts = [own.layout for own in stages]
    layout = EntryLayout(
        tuple(nodes),
        first.layout.indices,
        max(own.arena_bytes for own in layouts),
        any(own.is_parallel for own in layouts),
        exchanges=any(own.exchanges for own in layouts),
    )
    facts = RoutineFacts(
        set[str]().union(*(own.facts.reads for own in stages)),
        set[str]().union(*(own.facts.writes for own in stages)),
        set[str]().union(*(own.facts.parts for own in stages)),
        [limit for own in stages for limit in own.facts.limits],
    )
    name = first.name.removesuffix(".0")
    return Interface(name, layout, first.ranges, facts, nodes, first.mesh, first.exchanges, tuple(stages))


def _exchange(step: CollectiveOp) -> Exchange:
    size, line = byte_size(declaration(step.moved)), location_text(step) or ""
    phase = "" if step.phase is None else step.phase.data
    return Exchange(step.kind.data, step.mesh.data, size, line, step.number_and_peer, phase)


def the_func(module: ModuleOp) -> FuncOp:
    """The routine of a module that no other one repeats."""
    (func,) = uncalled(module)
    return func
