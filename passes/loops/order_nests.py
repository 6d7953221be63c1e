"""`order-nests`: nests that free at least as much memory as they take run as early as they can."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.loops import FuncOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.dependences import NestNodes, followers
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import all_steps, declaration, functions


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
