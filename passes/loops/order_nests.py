"""`order-nests`: nests that free at least as much memory as they take run as early as they can."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp
from ocannl.passes.analysis.memory import byte_size
from ocannl.passes.analysis.nests import (
    Opaque,
    Step,
    accesses,
    all_steps,
    declaration,
    functions,
    node_mode,
    used_nodes,
    written_nodes,
)


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
            loaded = {op.node: None for op in accesses(step) if isinstance(op, LoadOp)}
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


class Order:
    """A list scheduler: takes the nests of a function one by one, with the nodes that are
    live between them.
    """

    def __init__(self, touched: Sequence[NestNodes]) -> None:
        self.touched = touched
        self.followers = followers(touched)
        self.waiting = Counter(later for found in self.followers for later in found)
        """For each nest, how many of those before it have not run."""
        self.left = Counter(node for own in touched for node in own.local)
        """How many nests that touch a node have not run."""
        self.bytes = {node: byte_size(declaration(node)) for node in self.left}
        self.live: set[SSAValue] = set()

    def run(self) -> list[int]:
        ready = [position for position in range(len(self.touched)) if not self.waiting[position]]
        order: list[int] = []
        while ready:
            chosen = next((position for position in ready if self.uses_up(position)), ready[0])
            ready.remove(chosen)
            order.append(chosen)
            self.take(chosen)
            for later in self.followers[chosen]:
                self.waiting[later] -= 1
                if not self.waiting[later]:
                    insort(ready, later)
        return order

    def uses_up(self, position: int) -> bool:
        """Whether a nest touches live nodes, and takes no more bytes than are free after it."""
        local = self.touched[position].local
        taken = sum(self.bytes[node] for node in local if node not in self.live)
        freed = sum(self.bytes[node] for node in local if self.left[node] == 1)
        return taken <= freed and not self.live.isdisjoint(local)

    def take(self, position: int) -> None:
        for node in self.touched[position].local:
            self.live.add(node)
            self.left[node] -= 1


def reorder(func: FuncOp) -> None:
    found = all_steps(func)
    order = Order([NestNodes.of(nest) for nest in found]).run()
    for nest in found:
        nest.detach()
    func.body.block.add_ops(found[position] for position in order)


@dataclass(frozen=True)
class OrderNestsPass(ModulePass):
    """List scheduling for a small arena: a nest that frees at least as many bytes as it takes runs as soon as
    its operands are there. Other nests keep their order.

    So each gradient is used up before the next one is computed.
    """

    name = "order-nests"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            reorder(func)
