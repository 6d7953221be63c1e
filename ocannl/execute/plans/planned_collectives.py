"""The collectives of a partitioned program: what they move, by which algorithms, and what engines send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import FixedBitwidthType, LocationAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects import assign, loops
from ocannl.dialects.index.memref import array_type
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.ir.origins import name_of, origins
from ocannl.dialects.texpr.collectives import AllToAllOp, CollectiveOp
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.lowering.collectives import CollectiveSteps
from ocannl.passes.analysis.communication.rounds import Kind
from ocannl.passes.analysis.communication.simulation import Links, Traffic, groups_along, simulate
from ocannl.passes.analysis.costs.roofline import runs_of
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import declaration

HALVES: Mapping[Kind, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
"""How often all bytes but a rank's own pass it, of collectives that are not from part to part."""

Exchange: TypeAlias = tuple[str, int]
"""The operations of engines for a collective: the kind, and the bytes that each rank has in the source."""


@dataclass(frozen=True)
class PlannedCollective:
    """A collective among the ranks along one axis of a mesh.

    Attributes:
        kind: `all_reduce`, `all_gather`, `reduce_scatter` or `all_to_all`.
        operand: the name of the tensor that it moves; of small sums in one bucket, `w_grad and 5 more`.
        axis: the mesh axis.
        line: the user's line that it comes from, `file:line`.
        bytes: the bytes of the whole: of a sum, of what is gathered or scattered.
        times: how often one run calls it.
        sent: the bytes that a rank sends in one call by the best algorithms.
        engine_sent: the bytes that a rank sends in one call by the engines of this package.
        engine_messages: the messages of all ranks in one call by these engines.
        ring: the messages of one call in all groups by rings, or pairwise for `all_to_all`.
        tree: those by trees; None for `all_to_all`.
    """

    kind: Kind
    operand: str
    axis: str
    line: str
    bytes: int
    times: int
    sent: int
    engine_sent: int
    engine_messages: int
    ring: Traffic
    tree: Traffic | None

    @property
    def fastest(self) -> Traffic:
        """The algorithm that takes less time."""
        found = [self.ring] if self.tree is None else [self.ring, self.tree]
        return min(found, key=lambda traffic: traffic.seconds)

    @property
    def seconds(self) -> float:
        """The time of all calls of one run, by the faster algorithm."""
        return self.times * self.fastest.seconds


def sent_at_least(kind: Kind, size: int, ranks: int) -> int:
    """The bytes that each of some ranks has to send for a collective of `size` bytes (Patarasuk and Yuan,
    "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009; Thakur et al., 2005).
    """
    if kind == "all_to_all":
        return round(size * (ranks - 1) / ranks**2)
    return round(HALVES[kind] * size * (ranks - 1) / ranks)


@dataclass(frozen=True)
class FoundCollective:
    """A collective of a partitioned program, and the exchanges that it becomes."""

    kind: Kind
    operand: str
    axis: str
    bytes: int
    location: LocationAttr
    line: str
    exchanges: tuple[Exchange, ...]

    @staticmethod
    def of(op: CollectiveOp, mesh: Mapping[str, int]) -> FoundCollective:
        axis, kind = op.mesh.data, cast(Kind, op.name.removeprefix("texpr."))
        size = max(bytes_of(op.tensor), bytes_of(op.result))
        if isinstance(op, AllToAllOp):
            size = bytes_of(op.tensor) * mesh[axis]
        named = next((name for origin in origins(op.location) if (name := name_of(origin))), "")
        operand, line = op.result.name_hint or named, location_text(op) or ""
        return FoundCollective(kind, operand, axis, size, op.location, line, exchanges_of(op, mesh[axis]))

    @staticmethod
    def of_bucket(step: loops.CollectiveOp) -> FoundCollective:
        """Several sums or gathers by one exchange."""
        exchange, line = _exchange(step), location_text(step) or ""
        first, *others = joined_in(step)
        kind: Kind = "all_gather" if step.gathers else "all_reduce"
        if step.sums and step.kind.data == "all_to_all":
            kind = "reduce_scatter"
        size = byte_size(declaration(step.arrays[0])) if step.gathers else exchange[1]
        operand = f"{first} and {len(others)} more" if others else first
        return FoundCollective(kind, operand, step.mesh.data, size, step.location, line, (exchange,))

    def key(self, exchange: Exchange) -> tuple[int, str, str, int]:
        """Identifies an exchange among those of the lowered program."""
        return id(self.location), self.axis, *exchange


def joined_in(step: loops.CollectiveOp) -> tuple[str, ...]:
    """The names of what shares an exchange."""
    return (*step.sums, *step.gathers)


def found_in(routine: Operation, mesh: Mapping[str, int]) -> list[FoundCollective]:
    """The collectives of a routine after `split-stages`."""
    return [FoundCollective.of(op, mesh) for op in routine.walk() if isinstance(op, CollectiveOp)]


def bytes_of(value: SSAValue) -> int:
    element = tensor_type(value).element
    assert isinstance(element, FixedBitwidthType)
    cells = 1
    for size in shape_of(value).memory_sizes:
        cells *= size
    return cells * element.size


def exchanges_of(op: CollectiveOp, ranks: int) -> tuple[Exchange, ...]:
    """The exchanges that a collective becomes when it is lowered, in order."""
    element = tensor_type(op.result).element

    def node(suffix: str, sizes: tuple[int, ...]) -> SSAValue:
        return assign.NodeOp(suffix, "local", "", array_type(element, sizes)).result

    steps = CollectiveSteps(op.mesh.data, ranks, (), node)
    operand, result = (node("", tuple(shape_of(value).memory_sizes)) for value in (op.tensor, op.result))
    steps.add(op, result, operand)
    return tuple(_exchange(step) for step in steps.steps if isinstance(step, assign.CollectiveOp))


def _exchange(step: assign.CollectiveOp | loops.CollectiveOp) -> Exchange:
    return step.kind.data, byte_size(declaration(step.moved))


def called(found: Sequence[FoundCollective], func: loops.FuncOp) -> list[tuple[FoundCollective, int]]:
    """Collectives with how often a run of the lowered program calls each, those that it does not call left
    out. What memory makes stale is computed again, so that a collective may be there several times. What
    shares an exchange is one collective, at the place of the first part of it.
    """
    runs: Counter[Any] = Counter()
    buckets: list[tuple[loops.CollectiveOp, int]] = []
    for step, times in runs_of(func):
        if isinstance(step, loops.CollectiveOp) and step.is_wait:
            continue
        if isinstance(step, loops.CollectiveOp) and joined_in(step):
            buckets.append((step, times))
        elif isinstance(step, loops.CollectiveOp) and step.message is None:
            runs[id(step.location), step.mesh.data, *_exchange(step)] += times
    places = {each.operand: place for place, each in reversed([*enumerate(found)])}
    alone = _alone(found, {(step.mesh.data, name) for step, _ in buckets for name in joined_in(step)})
    planned = [(places[each.operand], each, times) for each, times in _counted(alone, runs)]
    for step, times in buckets:
        place = min(places.get(name, len(found)) for name in joined_in(step))
        planned.append((place, FoundCollective.of_bucket(step), times))
    return [(each, times) for _, each, times in sorted(planned, key=lambda own: own[0])]


def _alone(found: Sequence[FoundCollective], joined: Set[tuple[str, str]]) -> list[FoundCollective]:
    """The collectives for which there may be exchanges of their own: not those in buckets, by mesh axis and
    name, if another one is like them.
    """
    others = {each.key(each.exchanges[0]) for each in found if (each.axis, each.operand) not in joined}
    return [
        each
        for each in found
        if (each.axis, each.operand) not in joined or each.key(each.exchanges[0]) not in others
    ]


def _counted(found: Sequence[FoundCollective], runs: Mapping[Any, int]) -> list[tuple[FoundCollective, int]]:
    keys = [each.key(each.exchanges[0]) for each in found]
    alike = Counter(keys)
    counted = [(each, -(-runs[key] // alike[key])) for each, key in zip(found, keys, strict=True)]
    return [(each, times) for each, times in counted if times]


@dataclass
class CollectivePlanner:
    """Simulates collectives on a mesh and a machine, each kind and size on an axis once."""

    mesh: Mapping[str, int]
    links: Links
    known: dict[tuple[Kind, str, int], tuple[Traffic, Traffic | None]] = field(
        default_factory=dict[tuple[Kind, str, int], tuple[Traffic, "Traffic | None"]]
    )

    def plan(self, found: FoundCollective, times: int) -> PlannedCollective:
        ranks, everyone = self.mesh[found.axis], 1
        for size in self.mesh.values():
            everyone *= size
        ring, tree = self._traffic(found)
        return PlannedCollective(
            found.kind,
            found.operand,
            found.axis,
            found.line,
            found.bytes,
            times,
            sent_at_least(found.kind, found.bytes, ranks),
            sum(engine_sends(exchange, ranks) for exchange in found.exchanges),
            len(found.exchanges) * (ranks - 1) * everyone,
            ring,
            tree,
        )

    def _traffic(self, found: FoundCollective) -> tuple[Traffic, Traffic | None]:
        key = found.kind, found.axis, found.bytes
        if key not in self.known:
            groups = groups_along(self.mesh, found.axis)
            ring = simulate(found.kind, "ring", found.bytes, groups, self.links)
            is_swap = found.kind == "all_to_all"
            tree = None if is_swap else simulate(found.kind, "tree", found.bytes, groups, self.links)
            self.known[key] = ring, tree
        return self.known[key]


def engine_sends(exchange: Exchange, ranks: int) -> int:
    """The bytes that a rank sends in an exchange: all that it has to each other rank, or a row to each."""
    kind, size = exchange
    return (ranks - 1) * (size if kind == "all_gather" else size // ranks)
