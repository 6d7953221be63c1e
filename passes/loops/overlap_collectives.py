"""`overlap-collectives`: ranks compute while what they exchange is on its way."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.assign.collective import PHASES, START, WAIT
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import CollectiveOp, FuncOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.work import flops
from ocannl.passes.analysis.dataflow.dependences import NestNodes, followers
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import Step, all_steps, declaration, functions, node_mode


@dataclass(frozen=True)
class Rates:
    """A rough guess of the work that a rank does in a second. The order of steps depends on it alone."""

    flops: float
    bytes: float
    link_bytes: float
    latency: float
    """The seconds that the shortest exchange takes."""

    def computing(self, step: Step, touched: NestNodes) -> float:
        """The seconds of a step, as if it touched all of its nodes; of a collective none."""
        if isinstance(step, CollectiveOp):
            return 0.0
        traffic = sum(map(node_bytes, touched.loaded | touched.stored))
        return max(flops(step) / self.flops, traffic / self.bytes)

    def exchanging(self, step: CollectiveOp) -> float:
        """The seconds until an exchange has ended."""
        return self.latency + max(map(node_bytes, step.nodes)) / self.link_bytes


OF_CORE = Rates(flops=3e10, bytes=1e10, link_bytes=4e9, latency=2e-5)
OF_GPU = Rates(flops=2e13, bytes=1.5e12, link_bytes=1e11, latency=2e-5)

Ready: TypeAlias = list[tuple[int, int]]
"""Numbers of steps that can run, each behind the place to which it belongs, in that order."""

# Exchanges of few bytes may start at any time; buffers of others are memory that computing needs.
SMALL_BYTES = 2**16
# How long before its end is needed an exchange starts that takes memory, in times that it needs itself.
AHEAD = 2.0


def node_bytes(node: SSAValue) -> int:
    return byte_size(declaration(node))


def split(steps: Sequence[Step]) -> list[Step]:
    """The steps with each exchange in its two parts."""
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, CollectiveOp) or step.message is not None or step.phase is not None:
            found.append(step)
            continue
        kind, mesh = step.kind.data, step.mesh.data
        parts = [
            CollectiveOp(kind, step.nodes, mesh, sums=step.sums, phase=phase, gathers=step.gathers)
            for phase in PHASES
        ]
        derive(parts, step.location)
        found += parts
    return found


@dataclass
class Overlapping:
    """A list scheduler: takes the steps of a function one by one, and knows by a guess what time it is.

    `steps` are in an order in which a start and its wait follow each other. Starts run as early as they can,
    and so do steps that are for them alone. Others keep their order, but for those that need what is still on
    its way: what comes later runs before them, for as long as the exchange takes.
    """

    steps: Sequence[Step]
    rates: Rates
    now: float = 0.0
    """The seconds of computing so far."""
    ends: dict[int, float] = field(default_factory=dict[int, float])
    """When exchanges have ended, by the number of their wait."""
    order: list[int] = field(default_factory=list[int])
    starts: Ready = field(default_factory=list[tuple[int, int]])
    feeding: Ready = field(default_factory=list[tuple[int, int]])
    """Steps that are ready and for an exchange alone, and waits that such steps need."""
    others: Ready = field(default_factory=list[tuple[int, int]])

    def __post_init__(self) -> None:
        self.touched = [NestNodes.of(step) for step in self.steps]
        self.followers = followers(self.touched)
        keep_messages_in_place(self.steps, self.followers)
        keep_fills_late(self.touched, self.followers)
        self.waiting = Counter(later for found in self.followers for later in found)
        self.is_start = [is_phase(step, START) for step in self.steps]
        self.is_wait = [is_phase(step, WAIT) for step in self.steps]
        self.seconds = [self.rates.computing(*pair) for pair in zip(self.steps, self.touched, strict=True)]
        self.feeds = self._feeding()
        self.received = {
            node
            for at, later in enumerate(self.followers)
            if self.is_wait[at]
            for step in later
            for node in self.touched[step].stored
        }
        """The nodes that are computed from results of exchanges."""
        last = len(self.steps)
        self.due = [min(self.followers[at], default=last) if self.is_wait[at] else at for at in range(last)]
        """The place of each step in the old order, and of a wait that of the first step that needs it."""
        self.earliest = self._earliest_starts()

    def _feeding(self) -> list[bool]:
        """Whether all that a step stores is local, and read by exchanges alone."""
        read = {node for at, own in enumerate(self.touched) if not self._moves(at) for node in own.loaded}
        return [
            bool(own.stored)
            and not self._moves(at)
            and read.isdisjoint(own.stored)
            and all(node_mode(node) == "local" for node in own.stored)
            for at, own in enumerate(self.touched)
        ]

    def _moves(self, at: int) -> bool:
        return self.is_start[at] or self.is_wait[at]

    def _earliest_starts(self) -> list[float]:
        """For each start, the seconds of computing before which it may not run."""
        before = [0.0]
        for seconds in self.seconds:
            before.append(before[-1] + seconds)
        return [
            before[self.due[at + 1]] - AHEAD * self.rates.exchanging(step)
            if isinstance(step, CollectiveOp) and self.is_start[at] and self._takes_memory(step)
            else 0.0
            for at, step in enumerate(self.steps)
        ]

    def _takes_memory(self, step: CollectiveOp) -> bool:
        """Whether an exchange that is early takes memory for long, as of a parameter that is needed late: of
        what came by another exchange, as sums that ranks share, the program has asked for the whole.
        """
        target, source = step.nodes
        if node_mode(target) != "local" or node_bytes(target) <= max(SMALL_BYTES, node_bytes(source)):
            return False
        return source not in self.received

    def run(self) -> list[int]:
        for at in range(len(self.steps)):
            if not self.waiting[at]:
                self._is_ready(at)
        while self.starts or self.feeding or self.others:
            self._take(self._chosen())
        return self.order

    def _is_ready(self, at: int) -> None:
        insort(self._list_of(at), (self.due[at], at))

    def _list_of(self, at: int) -> Ready:
        if self.is_start[at]:
            return self.starts
        if self.feeds[at] or (self.is_wait[at] and any(self.feeds[own] for own in self.followers[at])):
            return self.feeding
        return self.others

    def _chosen(self) -> int:
        """The next step: one that need not wait, else the first."""
        for _, at in self.starts:
            if self.now >= self.earliest[at]:
                return at
        for found in (self.feeding, self.others):
            for _, at in found:
                if not self.is_wait[at] or self.now >= self.ends[at]:
                    return at
        return min(found[0] for found in (self.starts, self.feeding, self.others) if found)[1]

    def _take(self, at: int) -> None:
        self._list_of(at).remove((self.due[at], at))
        self.order.append(at)
        step = self.steps[at]
        if self.is_start[at] and isinstance(step, CollectiveOp):
            self.ends[at + 1] = self.now + self.rates.exchanging(step)
        elif self.is_wait[at]:
            self.now = max(self.now, self.ends[at])
        self.now += self.seconds[at]
        for later in self.followers[at]:
            self.waiting[later] -= 1
            if not self.waiting[later]:
                self._is_ready(later)


def keep_messages_in_place(steps: Sequence[Step], followers: Sequence[set[int]]) -> None:
    """Lets exchanges stay on their side of messages, for which ranks with other programs wait, and messages
    keep their order.
    """
    message, since = list[int](), list[int]()
    for at, step in enumerate(steps):
        if isinstance(step, CollectiveOp) and step.message is None:
            since.append(at)
            before = message
        elif communicates(step):
            before, message, since = since or message, [at], list[int]()
        else:
            continue
        for earlier in before:
            followers[earlier].add(at)


def keep_fills_late(touched: Sequence[NestNodes], followers: Sequence[set[int]]) -> None:
    """Lets steps that only set local memory, as to zero, wait for all else that its first user needs: they
    are no work worth taking that memory for long.
    """
    fills = {
        at for at, own in enumerate(touched) if not own.loaded and own.stored and own.local == [*own.stored]
    }
    needed: dict[int, list[int]] = {min(followers[at]): [] for at in fills if followers[at]}
    for at, later in enumerate(followers):
        for user in later & needed.keys() if at not in fills else ():
            needed[user].append(at)
    for at in fills:
        for earlier in needed[min(followers[at])] if followers[at] else ():
            if earlier < at:
                followers[earlier].add(at)


def is_phase(step: Step, phase: str) -> bool:
    return isinstance(step, CollectiveOp) and step.phase is not None and step.phase.data == phase


def communicates(step: Step) -> bool:
    """Whether ranks exchange something in a step."""
    if isinstance(step, RepeatOp):
        return any(communicates(inner) for inner in all_steps(step.func))
    return isinstance(step, CollectiveOp)


def overlap(func: FuncOp, rates: Rates) -> None:
    before = all_steps(func)
    steps = split(before)
    order = Overlapping(steps, rates).run()
    for step in before:
        step.detach()
    func.body.block.add_ops(steps[at] for at in order)


@dataclass(frozen=True)
class OverlapCollectivesPass(ModulePass):
    """Latency hiding: each exchange becomes a start and a wait, by a list scheduler that knows how long an
    exchange takes (Wang et al., "Overlap Communication with Dependent Computation via Decomposition in Large
    Deep Learning Models", 2023, name XLA's).

    Messages between stages stay as they are, and exchanges stay before or after each of them. With `kernels`,
    ranks have GPUs.
    """

    name = "overlap-collectives"
    kernels: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            if any(isinstance(step, CollectiveOp) and step.message is None for step in all_steps(func)):
                overlap(func, OF_GPU if self.kernels else OF_CORE)
