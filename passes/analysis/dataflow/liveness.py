"""Liveness of nodes: the steps of a routine between which their contents are in use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from ocannl.dialects.loops import FuncOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import Step, all_steps, declaration, node_mode, used_nodes, written_nodes


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The positions of the first and the last step that touch a node."""

    first: int
    last: int


def lifetimes(func: FuncOp) -> dict[SSAValue, Lifetime]:
    """The lifetime of every node that is touched, in the order of their first steps."""
    first: dict[SSAValue, int] = {}
    last: dict[SSAValue, int] = {}
    for position, step in enumerate(all_steps(func)):
        for node in used_nodes(step):
            first.setdefault(node, position)
            last[node] = position
    return {node: Lifetime(position, last[node]) for node, position in first.items()}


class Timeline:
    """The nests, groups, loops and collectives that touch each node of a function, and the bytes of local
    nodes that are live at each of them.
    """

    def __init__(self, found: Sequence[Step]) -> None:
        self.touches: dict[SSAValue, list[int]] = {}
        self.writes: dict[SSAValue, list[int]] = {}
        for position, step in enumerate(found):
            for node in used_nodes(step):
                self.touches.setdefault(node, []).append(position)
            for node in written_nodes(step):
                if node in self.touches:  # others are inside of a group
                    self.writes.setdefault(node, []).append(position)
        self.bytes = {node: byte_size(declaration(node)) for node in self.touches}
        self.local = [node for node in self.touches if node_mode(node) == "local"]
        self.live = [0] * len(found)
        for node in self.local:
            self.change(self.touches[node][0], self.touches[node][-1] + 1, self.bytes[node])

    def change(self, start: int, stop: int, bytes: int) -> None:
        for position in range(start, stop):
            self.live[position] += bytes

    def gap(self, node: SSAValue, position: int) -> tuple[int, int] | None:
        """The last touch of a node before a position and the first after it; None if there are none, or it is
        touched there.
        """
        touches = self.touches[node]
        at = bisect_left(touches, position)
        if at in (0, len(touches)) or touches[at] == position:
            return None
        return touches[at - 1], touches[at]

    def longest_gap(self, node: SSAValue) -> int:
        """The start of the longest time between two touches of a node."""
        pairs = list(pairwise(self.touches[node]))
        return max(pairs, key=lambda pair: pair[1] - pair[0], default=(0, 0))[0] + 1

    def first_write(self, node: SSAValue, after: int) -> int:
        """The first nest after `after` that writes a node; the number of nests if there is none."""
        return next((at for at in self.writes.get(node, ()) if at > after), len(self.live))
