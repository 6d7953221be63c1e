"""Legality and profitability of loop fusion: which nests may become one nest, and whether that pays.

A renaming maps variables of one nest to those of the other. Fusion is legal if, under it, both nests touch an
element that one of them writes at the same point only (Kennedy and McKinley, "Maximizing Loop Parallelism and
Improving Data Locality via Loop Fusion and Distribution", 1993).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.loops import FuncOp, NestOp, UniformOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import (
    SMALL_REDUCTION_WORK,
    Accesses,
    names_in,
    operations,
    points,
    reduction_work,
    renamed,
)

Renaming: TypeAlias = dict[str, Linear]
# The most operations of a fused nest: longer code gains nothing, and compiles slowly.
LONGEST_NEST = 256


@dataclass(slots=True)
class NestSummary:
    """A nest with the facts on which fusion depends, kept up to date while others are fused into it."""

    nest: NestOp
    accesses: Accesses
    reduction_work: int
    length: int
    in_turn: bool
    draws: bool
    names: Names | None = None

    @staticmethod
    def of(nest: NestOp) -> NestSummary:
        ops = operations(nest.body.block)
        work = reduction_work(nest.body.block.ops)
        draws = any(isinstance(op, UniformOp) for op in ops)
        return NestSummary(nest, Accesses.of(ops), work, len(ops), bool(nest.clashing), draws)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be fused with the nest: it has a schedule, or points that store to the same
        cell.
        """
        return self.nest.schedule is not None or self.in_turn

    @property
    def signature(self) -> tuple[int, ...]:
        return tuple(sorted(size for _, size in self.nest.space.data))


def is_worthwhile(target: NestSummary, group: NestSummary, renaming: Renaming) -> bool:
    """Whether fusion pays: for scalars, and where both nests touch the same elements. Two contractions fuse
    only while they are small, those of scalars in no group, as equal layers would then differ, and none with
    random numbers, whose long code a register tile would repeat.
    """
    return cost_of_fusion(target, group, renaming) is None


def cost_of_fusion(target: NestSummary, group: NestSummary, renaming: Renaming) -> str | None:
    """Why fusion does not pay, in words; None if it does."""
    if target.length + group.length > LONGEST_NEST:
        return f"together they have more than {LONGEST_NEST} operations"
    size = points(target.nest.space.data)
    if target.reduction_work and group.reduction_work:
        work = (target.reduction_work + group.reduction_work) * size
        is_number = size == 1 and isinstance(target.nest.parent_op(), FuncOp)
        if work > SMALL_REDUCTION_WORK or is_number:
            return "each has a reduction, which gets a register tile of its own"
    if size > 1 and ((target.draws and group.reduction_work) or (target.reduction_work and group.draws)):
        return "a register tile of the reduction would repeat the code of random numbers"
    is_shared = size == 1 or _shares_data(target, group, renaming)
    return (
        None
        if is_shared or _fill_gaps(target, group, renaming)
        else "they touch no element at the same point"
    )


def why_apart(target: NestSummary, group: NestSummary) -> str | None:
    """Why two nests are not fused, in words; None if they could be."""
    if target.in_turn or group.in_turn:
        return "points that store to the same element run in turn"
    conflicts = _conflicts(target, group)
    if _matching_variables(target, group, conflicts) is None:
        return "their spaces differ"
    renaming = legal_renaming(target, group)
    if renaming is None:
        return "a point of one needs what other points of the other store"
    return cost_of_fusion(target, group, renaming)


def _shares_data(target: NestSummary, group: NestSummary, renaming: Renaming) -> bool:
    """Whether, at every point, both nests touch the same element of a node, and another
    one at other points.
    """
    return any(
        renaming.keys() <= names_in(indices) and renamed(indices, renaming) in target.accesses.maps[node]
        for node in _common_nodes(target, group)
        for indices in group.accesses.maps[node]
        if indices is not None
    )


def _fill_gaps(target: NestSummary, group: NestSummary, renaming: Renaming) -> bool:
    """Whether, at every point, both nests store to cells of one node that lie side by side, as what several
    nests stack does: neither alone writes whole cache lines.
    """
    return any(
        _are_neighbours(a, renamed(b, renaming))
        for node in _common_nodes(target, group)
        if node in target.accesses.written and node in group.accesses.written
        for a in target.accesses.maps[node]
        for b in group.accesses.maps[node]
    )


def _are_neighbours(a: Map | None, b: Map | None) -> bool:
    """Whether two places of a node differ by one along its last axis, along which each has its own place."""
    if not a or not b or a[:-1] != b[:-1] or a[-1].names or b[-1].names:
        return False
    return abs(a[-1].constant - b[-1].constant) == 1


def _common_nodes(target: NestSummary, group: NestSummary) -> Iterable[SSAValue]:
    return (node for node in group.accesses.maps if node in target.accesses.maps)


def _conflicts(target: NestSummary, group: NestSummary) -> list[SSAValue]:
    """The nodes that both nests touch and one of them writes."""
    written = target.accesses.written | group.accesses.written
    return [node for node in _common_nodes(target, group) if node in written]


def legal_renaming(target: NestSummary, group: NestSummary) -> Renaming | None:
    """The variables of `target` for those of `group` under which fusion is legal; None if there are none."""
    conflicts = _conflicts(target, group)
    renaming = _matching_variables(target, group, conflicts)
    if renaming is None:
        return None
    for node in conflicts:
        ours = [renamed(indices, renaming) for indices in group.accesses.maps[node]]
        if not all(same_or_apart(a, b) for a in target.accesses.maps[node] for b in ours):
            return None
    return renaming


def same_or_apart(a: Map | None, b: Map | None) -> bool:
    """Whether two accesses to a node touch the same element at a point, or never the same
    at any two points.
    """
    if a is None or b is None:
        return False
    return a == b or any(not (i.names or j.names) and i != j for i, j in zip(a, b, strict=True))


def _matching_variables(
    target: NestSummary, group: NestSummary, conflicts: list[SSAValue]
) -> Renaming | None:
    """A pairing of the variables: by the axes of common nodes, then by name, then in order, always of equal
    sizes.
    """
    matcher = _Matcher(dict(target.nest.space.data), dict(group.nest.space.data))
    for node in (*conflicts, *_common_nodes(target, group)):
        theirs, ours = target.accesses.maps[node][0], group.accesses.maps[node][0]
        if theirs is not None and ours is not None:
            for a, b in zip(theirs, ours, strict=True):
                matcher.match(a.variable, b.variable)
    for name in matcher.ours:
        matcher.match(name, name)
    for name in matcher.ours:
        for other in matcher.theirs:
            matcher.match(other, name)
    return matcher.matched if len(matcher.matched) == len(matcher.ours) else None


class _Matcher:
    def __init__(self, theirs: dict[str, int], ours: dict[str, int]) -> None:
        self.theirs = theirs
        self.ours = ours
        self.taken: set[str] = set()
        self.matched: Renaming = {}

    def match(self, theirs: str | None, ours: str | None) -> None:
        """Pairs two variables if both are free and of one size."""
        if theirs is None or ours is None or theirs in self.taken or ours in self.matched:
            return
        size = self.theirs.get(theirs)
        if size is not None and size == self.ours.get(ours):
            self.taken.add(theirs)
            self.matched[ours] = Linear.var(theirs)
