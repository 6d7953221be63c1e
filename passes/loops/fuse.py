"""`fuse`: nests over the same space become one nest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp, UniformOp
from ocannl.passes.analysis.nests import (
    SMALL_REDUCTION_WORK,
    Accesses,
    Cell,
    Names,
    cell,
    drop_unit_variables,
    names_in,
    nests,
    operations,
    points,
    reduction_work,
    rename,
    renamed,
    ungrouped,
    with_reduced,
)
from ocannl.passes.rewrites.dead_stores import mark_virtual, remove_dead_stores

Renaming: TypeAlias = dict[str, Linear]

# How many nests over equal spaces are tried as partners of one nest, nearest first.
PARTNERS_TRIED = 8
# Operations of a nest that still takes others in: longer code gains nothing, and compiles slowly.
LONGEST_NEST = 256


@dataclass(slots=True)
class Group:
    """A nest with what has been fused into it."""

    nest: NestOp
    accesses: Accesses
    reduction_work: int
    length: int
    in_turn: bool
    draws: bool
    names: Names | None = None

    @staticmethod
    def of(nest: NestOp) -> Group:
        ops = operations(nest.body.block)
        work = reduction_work(nest.body.block.ops)
        draws = any(isinstance(op, UniformOp) for op in ops)
        return Group(nest, Accesses.of(ops), work, len(ops), bool(nest.clashing), draws)

    @property
    def is_closed(self) -> bool:
        """Nothing joins a nest with a schedule, or one whose cells are complete only at its end."""
        return self.nest.schedule is not None or self.in_turn

    @property
    def signature(self) -> tuple[int, ...]:
        return tuple(sorted(size for _, size in self.nest.space.data))


def is_worthwhile(target: Group, group: Group, renaming: Renaming) -> bool:
    """Scalars always fuse, others where they touch the same elements; contractions only while small, and
    not with random numbers, whose long code a register tile would repeat for each row.
    """
    if target.length + group.length > LONGEST_NEST:
        return False
    size = points(target.nest.space.data)
    if target.reduction_work and group.reduction_work:
        work = (target.reduction_work + group.reduction_work) * size
        if work > SMALL_REDUCTION_WORK:
            return False
    if size > 1 and ((target.draws and group.reduction_work) or (target.reduction_work and group.draws)):
        return False
    return size == 1 or _shares_data(target, group, renaming)


def _shares_data(target: Group, group: Group, renaming: Renaming) -> bool:
    """At every point both touch the same element of a node, another one at every point."""
    return any(
        renaming.keys() <= names_in(indices) and renamed(indices, renaming) in target.accesses.maps[node]
        for node in _common_nodes(target, group)
        for indices in group.accesses.maps[node]
        if indices is not None
    )


def _common_nodes(target: Group, group: Group) -> Iterable[SSAValue]:
    return (node for node in group.accesses.maps if node in target.accesses.maps)


def _conflicts(target: Group, group: Group) -> list[SSAValue]:
    """The nodes that both touch and one of them writes."""
    written = target.accesses.written | group.accesses.written
    return [node for node in _common_nodes(target, group) if node in written]


def legal_renaming(target: Group, group: Group) -> Renaming | None:
    """The variables of `target` for those of `group`, if both touch what one writes at one point only."""
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
    """Two accesses to a node are of one element at a point, or of different ones at all points."""
    if a is None or b is None:
        return False
    return a == b or any(not (i.names or j.names) and i != j for i, j in zip(a, b, strict=True))


def _matching_variables(target: Group, group: Group, conflicts: list[SSAValue]) -> Renaming | None:
    """Pairs the variables by the axes of common nodes, then by name, then in order; sizes are equal."""
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


class Fuser:
    """Goes over nests that follow each other in one direction, and merges each into one that it has passed.

    A nest moves no further than to the nearest nest that it must not overtake.
    """

    def __init__(self, func: FuncOp, upwards: bool) -> None:
        self.func = func
        self.upwards = upwards
        self.groups: list[Group] = []
        self.by_signature: dict[tuple[int, ...], list[int]] = {}
        self.last_write: dict[SSAValue, int] = {}
        self.last_access: dict[SSAValue, int] = {}
        self.forwarded: set[SSAValue] = set()

    def run(self, found: Sequence[NestOp]) -> None:
        for nest in found if self.upwards else reversed(found):
            group = Group.of(nest)
            position = self._fuse(group)
            if position is None:
                position = len(self.groups)
                self.groups.append(group)
                self.by_signature.setdefault(group.signature, []).append(position)
            self._record(group.accesses, position)

    def _record(self, accesses: Accesses, position: int) -> None:
        for node in accesses.maps:
            self.last_access[node] = max(position, self.last_access.get(node, -1))
        for node in accesses.written:
            self.last_write[node] = max(position, self.last_write.get(node, -1))

    def _fuse(self, group: Group) -> int | None:
        """The position of the group that took the nest in."""
        for position in self._partners(group):
            target = self.groups[position]
            renaming = legal_renaming(target, group)
            if renaming is not None and is_worthwhile(target, group, renaming):
                self._merge(target, group, renaming)
                return position
        return None

    def _partners(self, group: Group) -> list[int]:
        if group.is_closed:
            return []
        barrier = self._barrier(group.accesses)
        positions = self.by_signature.get(group.signature, [])
        nearest = [p for p in reversed(positions[-PARTNERS_TRIED:]) if p > barrier]
        if barrier >= 0 and self.groups[barrier].signature == group.signature:
            nearest.insert(0, barrier)
        return [p for p in nearest if not self.groups[p].is_closed]

    def _barrier(self, accesses: Accesses) -> int:
        """The position of the nearest nest that may not be overtaken, or -1."""
        barrier = -1
        for node in accesses.maps:
            last = self.last_access if node in accesses.written else self.last_write
            barrier = max(barrier, last.get(node, -1))
        return barrier

    def _merge(self, target: Group, group: Group, renaming: Renaming) -> None:
        if target.names is None:
            target.names = Names.of(self.func, target.nest)
        moved = list(group.nest.body.block.ops)
        rename(moved, target.names, dict(renaming))
        block = target.nest.body.block
        stayed = list(block.ops)
        for op in moved:
            op.detach()
        if self.upwards or not stayed:
            block.add_ops(moved)
            self._forward(stayed, moved)
        else:
            block.insert_ops_before(moved, stayed[0])
            self._forward(moved, stayed)
        Rewriter.erase_op(group.nest)
        _join_labels(target.nest, group.nest, self.upwards)
        target.accesses.absorb(group.accesses, renaming)
        target.reduction_work += group.reduction_work
        target.length += group.length
        target.draws = target.draws or group.draws

    def _forward(self, first: list[Operation], second: list[Operation]) -> None:
        """What the first part stores is not loaded again by the second."""
        stored: dict[Cell, SSAValue] = {}
        for op in first:
            if isinstance(op, StoreOp):
                stored[cell(op)] = op.value
        for op in with_reduced(second):
            if isinstance(op, StoreOp):
                stored[cell(op)] = op.value
            elif isinstance(op, LoadOp) and cell(op) in stored:
                op.result.replace_all_uses_with(stored[cell(op)])
                self.forwarded.add(op.node)
                Rewriter.erase_op(op)


def _join_labels(target: NestOp, merged: NestOp, merged_is_last: bool) -> None:
    """Names a nest by its first and its last part."""
    first, last = (target, merged) if merged_is_last else (merged, target)
    ends = (first.label.data.split(" .. ")[0], last.label.data.split(" .. ")[-1])
    target.properties["label"] = StringAttr(" .. ".join(dict.fromkeys(ends)))


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Merges nests over the same space, up to the names and the order of its variables.

    A nest moves up, then down, past nests that it does not depend on, to one that shares data with it
    (scalars: to any). It applies where every node that one of the two writes is touched by both at the same
    point only. What is passed on inside the merged nest is not loaded again, and a local node that is not
    loaded any more becomes `virtual`. The policy: a reduction takes pointwise neighbours in, but two
    reductions merge only while both are small, because the scheduler tiles one contraction a nest, and a
    reduction with random numbers not at all. Nests with a schedule stay as they are.
    """

    name = "fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            for nest in nests(func):
                drop_unit_variables(nest)
            forwarded: set[SSAValue] = set()
            for upwards in (True, False):
                fuser = Fuser(func, upwards)
                fuser.run(nests(func))
                forwarded |= fuser.forwarded
                remove_dead_stores(func)
            mark_virtual(func, forwarded)
