"""Recognizes softmax among nests: which of them can run for one block of keys after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Step, names_in
from ocannl.passes.analysis.patterns.sums import is_float_sum
from ocannl.passes.loops.online_softmax.score_nests import Kind, ScoreNest, ScoreNests
from ocannl.passes.loops.online_softmax.steps import StepOrder, reads_of, writes_of


@dataclass(frozen=True, slots=True)
class Degree:
    """How a value depends on the exponentials of its row: as their power 0 or 1, divided by row values that
    the divisions load.
    """

    power: int
    divisions: tuple[arith.DivfOp, ...] = ()

    @property
    def divisors(self) -> tuple[SSAValue, ...]:
        return tuple(load_of(division.rhs).node for division in self.divisions)


@dataclass
class Exponential:
    """`exp((x - maximum) * c)`: `links` are its operations after the difference. `x` has one part, or two
    factors.
    """

    member: ScoreNest
    x: tuple[SSAValue, ...]
    maximum: LoadOp
    difference: SSAValue
    links: list[Operation]


@dataclass
class Softmax:
    """The nests of a softmax that run over blocks of keys with a running maximum, and those that come later.

    `degrees` are those of the sums in `sums`; `levels` has the later sums, those first that others need.
    """

    nests: ScoreNests
    maximum: ScoreNest
    exponential: Exponential
    sums: list[ScoreNest] = field(default_factory=list[ScoreNest])
    degrees: dict[ScoreNest, Degree] = field(default_factory=dict[ScoreNest, Degree])
    levels: list[list[ScoreNest]] = field(default_factory=list[list[ScoreNest]])


def recognize(order: StepOrder, nests: ScoreNests) -> Softmax | None:
    """The softmax that some nests compute; None where they are not certain to."""
    maxima = [m for m in nests.members if m.kind is Kind.ROWS and m.reductions[0].accum.data == "max"]
    if len(maxima) != 1 or maxima[0].stores[0].value is not maxima[0].reductions[0].result:
        return None
    exponential = find_exponential(nests, maxima[0].stores[0].node)
    if exponential is None:
        return None
    softmax = Softmax(nests, maxima[0], exponential)
    Sorter(softmax).run(order)
    return softmax if any(has_features(member) for member in softmax.sums) else None


def has_features(member: ScoreNest) -> bool:
    """Whether a nest has a weighted sum for each of several features."""
    return not set(member.nest.space.names) <= names_in(member.at)


def find_exponential(nests: ScoreNests, maximum: SSAValue) -> Exponential | None:
    """The only exponential of scores without the maximum of their row."""
    found = [m for m in nests.members if m.kind is Kind.POINTS and maximum in m.inputs]
    first = found[0] if found else None
    if first is None:
        return None
    loads = [op for op in first.loads if op.node is maximum]
    for exp in [op for op in first.nest.body.block.ops if isinstance(op, math.ExpOp)]:
        links, value = list[Operation]([exp]), exp.operand
        while isinstance(op := value.owner, arith.MulfOp | arith.DivfOp) and is_constant(op.rhs):
            links, value = [op, *links], op.lhs
        x, subtracted = minuend(value)
        if [subtracted] == loads and loads[0].result.has_one_use():
            return Exponential(first, x, loads[0], value, links)
    return None


def minuend(difference: SSAValue) -> tuple[tuple[SSAValue, ...], object]:
    """The parts of what something is subtracted from, and what computes that."""
    match difference.owner:
        case arith.SubfOp() as op:
            return (op.lhs,), op.rhs.owner
        case math.FmaOp() as op if isinstance(negated := op.c.owner, arith.NegfOp):
            return (op.a, op.b), negated.operand.owner
        case _:
            return (), None


class Sorter:
    """Sorts the nests of a softmax into those that run with the running maximum and the later ones."""

    def __init__(self, softmax: Softmax) -> None:
        self.softmax = softmax
        self.of_nest = {member.nest: member for member in softmax.nests.members}
        self.of_scores: dict[SSAValue, Degree] = {}
        self.divisors = set[SSAValue]()
        """The sums of rows by which scores may be divided."""
        self.level: dict[SSAValue, int] = {}
        """The first level at which what depends on the softmax is known."""

    def run(self, order: StepOrder) -> None:
        """Goes through the nests, and the steps that read what depends on the softmax, in program order."""
        levels: dict[int, list[ScoreNest]] = {}
        waiting = [order.positions[nest] for nest in self.of_nest]
        heapify(waiting)
        seen, last = -1, max(waiting)
        while waiting:
            if (at := heappop(waiting)) == seen:
                continue
            seen, known = at, len(self.level)
            self.sort(order.steps[at], levels)
            for node in [*self.level][known:]:
                for reader in order.readers(node):
                    if at < reader <= last:
                        heappush(waiting, reader)
        self.softmax.levels = [levels[level] for level in sorted(levels)]

    def sort(self, step: Step, levels: dict[int, list[ScoreNest]]) -> None:
        member = self.of_nest.get(step) if isinstance(step, NestOp) else None
        if member is None:
            needed = max([self.level.get(node, 0) for node in reads_of(step)], default=0)
            if needed:
                self.level |= dict.fromkeys(writes_of(step), needed)
        elif not self.take(member):
            needed = max([1, *(self.level.get(op.node, 0) for op in member.loads)])
            if member.kind is Kind.POINTS:
                self.level |= dict.fromkeys(member.written, needed)
            else:
                levels.setdefault(needed, []).append(member)
                self.level |= dict.fromkeys(member.written, needed + 1)

    def take(self, member: ScoreNest) -> bool:
        """Whether a nest can run with the running maximum; it is noted how."""
        softmax = self.softmax
        if member is softmax.maximum:
            self.level[member.written[0]] = 1
            return True
        running = {softmax.maximum.written[0], *self.divisors}
        if any(self.level.get(op.node) and op.node not in running for op in member.loads):
            return False
        if member.kind is Kind.POINTS:
            found = {op.node: self.degree(op.value, member) for op in member.stores}
            known = {node: degree for node, degree in found.items() if degree is not None}
            if len(known) == len(found):
                self.of_scores |= known
            return len(known) == len(found)
        if member.kind is not Kind.ROWS or not is_float_sum(member.reductions[0]):
            return False
        degree = self.degree(member.reductions[0].yielded, member)
        if degree is None or degree.power != 1:
            return False
        softmax.sums.append(member)
        softmax.degrees[member] = degree
        self.level[member.written[0]] = 1
        if not degree.divisions and member.stores[0].value is member.reductions[0].result:
            self.divisors.add(member.written[0])
        return True

    def degree(self, value: SSAValue, member: ScoreNest) -> Degree | None:
        """The degree of a value; None where it has none, or depends on the maximum by itself."""
        exponential, op = self.softmax.exponential, value.owner
        if op is exponential.links[-1]:
            known = all(self.degree(part, member) == Degree(0) for part in exponential.x)
            return Degree(1) if known else None
        if isinstance(op, LoadOp) and op.node in self.of_scores:
            return self.of_scores[op.node]
        if isinstance(op, LoadOp):
            return None if self.level.get(op.node) or op.node in member.wide else Degree(0)
        if isinstance(op, arith.DivfOp) and self.divides(op.rhs, member):
            degree = self.degree(op.lhs, member)
            return None if degree is None else Degree(degree.power, (*degree.divisions, op))
        assert isinstance(op, Operation)
        inner = [op.yielded] if isinstance(op, ReduceOp) else list(op.operands)
        degrees = [self.degree(operand, member) for operand in inner]
        known = [degree for degree in degrees if degree is not None]
        return combined(op, known) if len(known) == len(degrees) else None

    def divides(self, value: SSAValue, member: ScoreNest) -> bool:
        """Whether a value is a sum of the row, by which what is summed up may be divided in the end."""
        load = load_or_none(value)
        if load is None or load.node not in self.divisors:
            return False
        return all(index.is_constant or index in member.at for index in load.indices.data)


def combined(op: Operation, degrees: Sequence[Degree]) -> Degree | None:
    """The degree of what an operation makes of values of some degrees."""
    if all(degree == Degree(0) for degree in degrees):
        return Degree(0)
    match op:
        case arith.MulfOp():
            a, b = degrees
            return Degree(a.power + b.power, a.divisions + b.divisions) if a.power + b.power < 2 else None
        case arith.DivfOp():
            return degrees[0] if degrees[1] == Degree(0) else None
        case arith.NegfOp() | arith.ExtFOp() | arith.TruncFOp():
            return degrees[0]
        case arith.SelectOp():
            chosen = [d for d, value in zip(degrees[1:], op.operands[1:], strict=True) if not is_zero(value)]
            return chosen[0] if degrees[0] == Degree(0) and len(chosen) == 1 else None
        case _:
            return None


def load_or_none(value: SSAValue) -> LoadOp | None:
    return value.owner if isinstance(value.owner, LoadOp) else None


def load_of(value: SSAValue) -> LoadOp:
    assert isinstance(value.owner, LoadOp)
    return value.owner


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)


def is_zero(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == 0
