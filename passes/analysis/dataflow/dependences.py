"""The steps of a function that depend on each other, by the nodes that they touch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.loops import GroupOp, LoadOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Opaque, Step, nests_of, node_mode, touches, used_nodes, written_nodes


@dataclass(frozen=True, slots=True)
class NestNodes:
    """The nodes that a step loads from and stores to; `local` are those of them in the arena."""

    loaded: dict[SSAValue, None]
    stored: dict[SSAValue, None]
    local: list[SSAValue]

    @staticmethod
    def of(step: Step) -> NestNodes:
        if isinstance(step, Opaque):
            loaded = dict.fromkeys(step.nodes)
        else:
            touched = [pair for nest in nests_of(step) for pair in touches(nest)]
            loaded = {node: None for op, node in touched if isinstance(op, LoadOp)}
        stored = dict.fromkeys(written_nodes(step))
        if isinstance(step, GroupOp):
            used = set(used_nodes(step))
            loaded, stored = ({node: None for node in found if node in used} for found in (loaded, stored))
        return NestNodes(loaded, stored, [node for node in loaded | stored if node_mode(node) == "local"])


def followers(touched: Sequence[NestNodes]) -> list[set[int]]:
    """The dependence graph of nests, reduced: for each nest those after it that depend on it directly."""
    found: list[set[int]] = [set() for _ in touched]
    writer: dict[SSAValue, int] = {}
    readers: dict[SSAValue, list[int]] = {}
    for position, own in enumerate(touched):
        for node in own.loaded:
            if node in writer:
                found[writer[node]].add(position)
            readers.setdefault(node, []).append(position)
        for node in own.stored:
            for earlier in (*readers.pop(node, ()), *((writer[node],) if node in writer else ())):
                if earlier != position:
                    found[earlier].add(position)
            writer[node] = position
    return found
