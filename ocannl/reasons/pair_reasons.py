"""Why one node of a routine waits for another, and why their nests are not one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import space_text
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.fusion.fusion_legality import NestSummary, why_apart
from ocannl.program.why.reasons import Line, Reasons
from ocannl.reasons.node_reasons import nodes_in


@dataclass(frozen=True)
class Touching:
    """A nest or kernel, and the labels of the nodes that it reads and stores to."""

    nest: NestOp | LaunchOp
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def name(self) -> str:
        kind = "nest" if isinstance(self.nest, NestOp) else "kernel"
        return f"the {kind} {self.nest.label.data!r}"

    def line(self, text: str) -> Line:
        nest = self.nest
        space = f" over {space_text(nest.space.data)}" if isinstance(nest, NestOp) else ""
        return Line(location_text(nest), f"{self.name}{space} {text}")


def pair_reasons(func: FuncOp, first: str, second: str) -> Reasons:
    """Whether one of two nodes waits for the other, by which nests; and why these are not fused."""
    nests = [_touching(op) for op in func.walk() if isinstance(op, NestOp | LaunchOp)]
    for label in (first, second):
        if not any(label in nest.writes for nest in nests):
            kind = "kernel" if any(isinstance(each.nest, LaunchOp) for each in nests) else "nest"
            return Reasons(f"no {kind} stores `{label}`: nothing waits for it", ())
    together = next((nest for nest in nests if {first, second} <= nest.writes), None)
    if together is not None:
        answer = f"`{first}` and `{second}` are computed at once, by {together.name}"
        return Reasons(answer, (together.line("stores both"),))
    for before, after in ((first, second), (second, first)):
        chain = _chain(nests, before, after)
        if chain:
            lines = [nest.line(f"reads `{read}`") for read, nest in chain]
            source = next(nest for nest in nests if before in nest.writes)
            answer = f"`{after}` waits for `{before}`{_apart(source, chain[0][1])}"
            return Reasons(answer, (source.line(f"stores `{before}`"), *lines))
    return Reasons(f"neither of `{first}` and `{second}` waits for the other", ())


def _touching(nest: NestOp | LaunchOp) -> Touching:
    ops = list(nest.walk())
    if isinstance(nest, NestOp):
        return Touching(nest, _labels(ops, LoadOp), _labels(ops, StoreOp))
    touched = [(node.label.data, writes) for op in ops for node, writes in nodes_in(op)]
    written = frozenset(label for label, writes in touched if writes)
    return Touching(nest, frozenset(label for label, writes in touched if not writes), written)


def _labels(ops: Sequence[Operation], kind: type[LoadOp] | type[StoreOp]) -> frozenset[str]:
    nodes = [op.node.owner for op in ops if isinstance(op, kind)]
    return frozenset(node.label.data for node in nodes if isinstance(node, NodeOp))


def _chain(nests: Sequence[Touching], before: str, after: str) -> list[tuple[str, Touching]]:
    """The fewest nests after that which stores `before`, each with what it reads of the one before it, up to
    one that stores `after`; empty if there are none.
    """
    start = next(k for k, nest in enumerate(nests) if before in nest.writes)
    ways: dict[str, list[tuple[str, Touching]]] = {label: [] for label in (before,)}
    for nest in nests[start + 1 :]:
        known = [label for label in sorted(nest.reads) if label in ways]
        if not known:
            continue
        nearest = min(known, key=lambda label: len(ways[label]))
        way = [*ways[nearest], (nearest, nest)]
        if after in nest.writes:
            return way
        for label in nest.writes:
            if label not in ways or len(way) < len(ways[label]):
                ways[label] = way
    return []


def _apart(source: Touching, reader: Touching) -> str:
    """Why a nest is not fused with the next one that reads what it stores."""
    if isinstance(source.nest, LaunchOp) or isinstance(reader.nest, LaunchOp):
        return ""
    own, other = source.nest.parent_op(), reader.nest.parent_op()
    if own is other and not isinstance(own, FuncOp):
        return ": their nests run in turn, for some rows at a time"
    reason = why_apart(NestSummary.of(source.nest), NestSummary.of(reader.nest))
    return "" if reason is None else f"; {source.name} and {reader.name} are not one, since {reason}"
