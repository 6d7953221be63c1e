"""Greedy fusion of the nests of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.origins import inherit, merge
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.passes.analysis.fusion.fusion_legality import NestSummary, Renaming, is_worthwhile, legal_renaming
from ocannl.passes.analysis.names import Names, joined_label
from ocannl.passes.analysis.nests import Accesses, Cell, Step, cell, with_reduced
from ocannl.passes.rewrites.indices import rename

# Whether the fusion of two nests pays.
Profit: TypeAlias = Callable[[NestSummary, NestSummary, Renaming], bool]

# The nests over equal spaces that are tried as partners of one nest, nearest first.
PARTNERS_TRIED = 8


class Fuser:
    """Visits nests in one direction, and fuses each into a nest that it has visited.

    A nest moves no further than to the nearest nest or loop that it depends on, or that depends on it.
    """

    def __init__(self, func: FuncOp, upwards: bool, pays: Profit = is_worthwhile) -> None:
        self.func = func
        self.upwards = upwards
        self.pays = pays
        self.groups: list[NestSummary | None] = []
        """The steps that it has visited; None stands for one with which nothing is fused."""
        self.by_signature: dict[tuple[int, ...], list[int]] = {}
        self.last_write: dict[SSAValue, int] = {}
        self.last_access: dict[SSAValue, int] = {}
        self.forwarded: set[SSAValue] = set()

    def run(self, found: Sequence[Step]) -> None:
        for nest in found if self.upwards else reversed(found):
            if not isinstance(nest, NestOp):
                self.groups.append(None)
                self._record(Accesses.of_whole(nest), len(self.groups) - 1)
                continue
            group = NestSummary.of(nest)
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

    def _fuse(self, group: NestSummary) -> int | None:
        """The position of the nest that this one was fused into; None if there is none."""
        for position in self._partners(group):
            target = self.groups[position]
            assert target is not None
            renaming = legal_renaming(target, group)
            if renaming is not None and self.pays(target, group, renaming):
                self._merge(target, group, renaming)
                return position
        return None

    def _partners(self, group: NestSummary) -> list[int]:
        if group.is_closed:
            return []
        barrier = self._barrier(group.accesses)
        positions = self.by_signature.get(group.signature, [])
        nearest = [p for p in reversed(positions[-PARTNERS_TRIED:]) if p > barrier]
        if barrier >= 0 and (found := self.groups[barrier]) and found.signature == group.signature:
            nearest.insert(0, barrier)
        return [p for p in nearest if (found := self.groups[p]) and not found.is_closed]

    def _barrier(self, accesses: Accesses) -> int:
        """The position of the nearest nest that may not be overtaken, or -1."""
        barrier = -1
        for node in accesses.maps:
            last = self.last_access if node in accesses.written else self.last_write
            barrier = max(barrier, last.get(node, -1))
        return barrier

    def _merge(self, target: NestSummary, group: NestSummary, renaming: Renaming) -> None:
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
        merge(target.nest, group.nest)
        Rewriter.erase_op(group.nest)
        first, last = (target, group) if self.upwards else (group, target)
        target.nest.properties["label"] = StringAttr(joined_label(first.nest, last.nest))
        target.accesses.absorb(group.accesses, renaming)
        target.reduction_work += group.reduction_work
        target.length += group.length
        target.draws = target.draws or group.draws

    def _forward(self, first: list[Operation], second: list[Operation]) -> None:
        """Replaces loads of the second part by the values that the first part stores."""
        stored: dict[Cell, SSAValue] = {}
        for op in first:
            if isinstance(op, StoreOp):
                stored[cell(op)] = op.value
        for op in with_reduced(second):
            if isinstance(op, StoreOp):
                stored[cell(op)] = op.value
            elif isinstance(op, LoadOp) and cell(op) in stored:
                op.result.replace_all_uses_with(stored[cell(op)])
                inherit(stored[cell(op)], op)
                self.forwarded.add(op.node)
                Rewriter.erase_op(op)
