"""Finds code that repeats: for each node of a layer, the node that stands for it in the next one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp

# How often code repeats at least for it to be called that.
LEAST_REPEATS = 4
# How many distances between equal statements are tried as periods, those of most statements first.
PERIODS_TRIED = 64


@dataclass(frozen=True, slots=True)
class Region:
    """Statements from `start` to `stop` of which each is equal, but for nodes, to the one `period` later."""

    start: int
    stop: int
    period: int


class Repeats:
    """For each node of a layer the one `after` it, that of the next layer, from statements that repeat."""

    def __init__(self, statements: Sequence[Operation]) -> None:
        self.statements = statements
        numbers: dict[Hashable, int] = {}
        self.codes = [numbers.setdefault(code(op), len(numbers)) for op in statements]
        self.after: dict[SSAValue, SSAValue] = {}
        self.before: dict[SSAValue, SSAValue] = {}
        self.support: dict[SSAValue, int] = {}
        """How many statements tell what is after a node."""
        self.regions = regions(np.array(self.codes, np.int64))
        waiting = list(self.regions)
        while waiting:
            directed = next(((r, d) for r in waiting if (d := self.direction(r))), None)
            region, direction = directed or (waiting[0], 1)
            if directed is None and self.after:
                break
            waiting.remove(region)
            for one, other in self.pairs(region):
                self.follow(*((one, other) if direction > 0 else (other, one)))

    def pairs(self, region: Region) -> Iterator[tuple[SSAValue, SSAValue]]:
        """Different nodes that stand for each other, one period apart."""
        for k in range(region.start, region.stop):
            ops = self.statements[k], self.statements[k + region.period]
            for one, other in zip(ops[0].operands, ops[1].operands, strict=True):
                if one is not other:
                    yield one, other

    def direction(self, region: Region) -> int:
        """Whether layers come in the order that is known (1), the other way round (-1), or neither (0)."""
        for one, other in self.pairs(region):
            if self.after.get(one) is other:
                return 1
            if self.after.get(other) is one:
                return -1
        return 0

    def follow(self, one: SSAValue, other: SSAValue) -> None:
        """What is known stays: at the ends of a region, equal statements may mean something else."""
        if one not in self.after and other not in self.before:
            self.after[one], self.before[other] = other, one
        if self.after.get(one) is other:
            self.support[one] = self.support.get(one, 0) + 1

    def typical(self) -> list[Operation]:
        """One layer's statements of each region, not those of the first layer."""
        return [
            op for r in self.regions for op in self.statements[r.start + r.period : r.start + 2 * r.period]
        ]

    def chains(self) -> list[list[SSAValue]]:
        """The nodes that stand for each other, in the order of their layers."""
        found: list[list[SSAValue]] = []
        for first in self.after:
            if first not in self.before:
                chain = [first]
                while (following := self.after.get(chain[-1])) is not None:
                    chain.append(following)
                found += self.reliable(chain)
        return found

    def reliable(self, chain: list[SSAValue]) -> Iterator[list[SSAValue]]:
        """The parts of a chain between steps that few statements tell of."""
        most = max(self.support[node] for node in chain[:-1])
        start = 0
        for stop, node in enumerate(chain, 1):
            if stop == len(chain) or 2 * self.support[node] < most:
                if stop - start > 1:
                    yield chain[start:stop]
                start = stop


def regions(codes: NDArray[np.int64]) -> list[Region]:
    """Where codes repeat, without overlaps; the longest first."""
    found = [region for period in periods(codes) for region in repeats(codes, period)]
    found.sort(key=lambda region: (region.start - region.stop, region.period))
    taken: list[Region] = []
    for region in found:
        if all(region.stop + region.period <= t.start or t.stop + t.period <= region.start for t in taken):
            taken.append(region)
    return taken


def code(op: Operation) -> Hashable:
    """What a statement is apart from the nodes that it uses."""
    return op.name, tuple(op.properties.values()), tuple([kind(operand) for operand in op.operands])


def kind(value: SSAValue) -> Hashable:
    """What a node is apart from its name."""
    node = value.owner
    return (value.type, node.mode, node.why) if isinstance(node, NodeOp) else value


def periods(codes: NDArray[np.int64]) -> list[int]:
    """Distances from statements to the next equal ones."""
    order = np.argsort(codes, kind="stable")
    found, counts = np.unique(np.diff(order)[np.diff(codes[order]) == 0], return_counts=True)
    often = np.argsort(-counts, kind="stable")[:PERIODS_TRIED]
    return [int(found[k]) for k in often if counts[k] >= LEAST_REPEATS - 1]


def repeats(codes: NDArray[np.int64], period: int) -> Iterator[Region]:
    same = np.concatenate([[False], codes[:-period] == codes[period:], [False]])
    edges = np.flatnonzero(np.diff(same.astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        if stop - start >= (LEAST_REPEATS - 1) * period:
            yield Region(start, stop, period)
