"""A greedy search for chains of nests that run by rows together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.footprints import NestFootprint
from ocannl.passes.analysis.fusion.row_fusion import NestChain
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import all_steps, node_mode, used_nodes
from ocannl.passes.analysis.targets.target import TargetDescription

# The most nests that a chain passes over, which stay behind it, and the most in a chain.
PASSED_OVER, LONGEST_CHAIN = 8, 32


class Grouper(ABC):
    """Groups the nests of one function greedily: each chain grows while its benefit does."""

    def __init__(self, func: FuncOp, target: TargetDescription) -> None:
        self.func = func
        self.target = target
        self.labels = labels_of(func)
        self.segments: list[list[NestFootprint]] = [[]]
        """The nests between groups, loops and collectives."""
        touched: list[SSAValue] = []
        for step in all_steps(func):
            if not isinstance(step, NestOp):
                self.segments.append([])
                touched += used_nodes(step)
            else:
                self.segments[-1].append(view := NestFootprint.of(step))
                touched += view.places
        self.uses = Counter(node for node in touched if node_mode(node) == "local")

    def run(self) -> None:
        for views in self.segments:
            self.group(views)

    def group(self, waiting: Sequence[NestFootprint]) -> None:
        """Groups chains among nests that follow each other, with no group between them."""
        while waiting:
            growth = self.grow(waiting) if self.may_join(waiting[0]) and self.begins(waiting[0]) else None
            if growth is None or growth.saved <= 0:
                waiting = waiting[1:]
            else:
                for view in growth.before:
                    move_before(view.nest, growth.chain.members[0].view.nest)
                self.build(growth.chain)
                self.group(growth.before)
                waiting = growth.after

    def grow(self, views: Sequence[NestFootprint]) -> Growth:
        """The longest profitable chain that begins with the first nest, and the nests around it."""
        chain = NestChain.of(views[0])
        growth = Growth(chain, max(0.0, self.saved(chain)))
        for at, view in enumerate(views[1:], 1):
            if len(growth.after) > PASSED_OVER or len(growth.chain.members) == LONGEST_CHAIN:
                growth.after += views[at:]
                break
            joined = growth.chain.join(view) if self.may_join(view) else None
            needed = growth.needed(view) if joined is not None else []
            together = growth.need_chain(needed)
            if together and joined is not None:
                joined = growth.joined_by([*needed, view]) if all(map(self.may_join, needed)) else None
            saved = float("-inf") if joined is None else self.saved(joined)
            if joined is None or saved <= growth.saved:
                growth.after.append(view)
                continue
            growth.take(joined, saved, needed)
            if not together:
                growth.before += needed
                self.take_needed(growth, needed)
        return growth

    def take_needed(self, growth: Growth, needed: Sequence[NestFootprint]) -> None:
        """Lets nests on which the last one of a chain depends join before it, where no nest left out depends
        on them.
        """
        staying: list[NestFootprint] = []
        before = 1
        for view in reversed(needed):
            can = self.may_join(view) and not any(view.conflicts(other) for other in staying)
            joined = growth.chain.join(view, before) if can else None
            saved = float("-inf") if joined is None else self.saved(joined)
            if joined is not None and saved > growth.saved:
                growth.chain, growth.saved = joined, saved
                growth.before.remove(view)
                before += 1
            else:
                staying.append(view)

    def may_join(self, view: NestFootprint) -> bool:
        """Whether a nest may be in a chain."""
        return view.nest.schedule is None and all(view.sizes.values())

    @abstractmethod
    def begins(self, view: NestFootprint) -> bool:
        """Whether a nest may be the first of a chain."""

    @abstractmethod
    def saved(self, chain: NestChain) -> float:
        """The benefit of running a chain as one group, which is made if this is positive."""

    @abstractmethod
    def build(self, chain: NestChain) -> None:
        """Replaces the nests of a chain by a group."""


@dataclass
class Growth:
    """A chain so far, its benefit, and the nests that come before and after it."""

    chain: NestChain
    saved: float
    before: list[NestFootprint] = field(default_factory=list[NestFootprint])
    after: list[NestFootprint] = field(default_factory=list[NestFootprint])

    def needed(self, view: NestFootprint) -> list[NestFootprint]:
        """The nests after the chain that have to come before it, or join too, for a nest to join."""
        found: list[NestFootprint] = []
        for other in reversed(self.after):
            if any(other.conflicts(later) for later in (view, *found)):
                found.insert(0, other)
        return found

    def need_chain(self, views: Sequence[NestFootprint]) -> bool:
        """Whether some of the nests depend on the chain, so that they cannot come before it."""
        return any(view.conflicts(member.view) for view in views for member in self.chain.members)

    def joined_by(self, views: Sequence[NestFootprint]) -> NestChain | None:
        """The chain with several more nests, of which one that has no node in common with it yet joins before
        the next one that has; None if one of them cannot join.
        """
        chain, apart = self.chain, list[NestFootprint]()
        for view in views:
            if chain.touched.keys().isdisjoint(view.places):
                apart.append(view)
                continue
            joined, before = chain.join(view), 1
            for other in reversed(list(apart)):
                if joined is not None and not joined.touched.keys().isdisjoint(other.places):
                    apart.remove(other)
                    joined, before = joined.join(other, before), before + 1
            if joined is None:
                return None
            chain = joined
        return None if apart else chain

    def take(self, chain: NestChain, saved: float, needed: Sequence[NestFootprint]) -> None:
        """Goes on with a longer chain, and without the nests that it needs."""
        self.chain, self.saved = chain, saved
        self.after = [view for view in self.after if view not in needed]


def move_before(nest: NestOp, other: NestOp) -> None:
    nest.detach()
    Rewriter.insert_op(nest, InsertPoint.before(other))
