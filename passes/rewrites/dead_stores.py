"""Dead-store elimination over the nests of a function, by a backward scan of liveness."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Space
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, RepeatOp, StoreOp
from ocannl.passes.analysis.nests import Cell, accesses, all_steps, cell, covering_axes, is_unused, nodes
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def remove_dead_stores(func: FuncOp) -> None:
    """Removes stores to local nodes that are not read, and stores that are overwritten before they are read;
    loops that write only such nodes, with bodies that nobody else repeats.

    Nodes that persist are live at the end of a routine.
    """
    liveness = _Liveness({op.result for op in nodes(func) if op.mode.data != "local"})
    for step in reversed(all_steps(func)):
        if isinstance(step, GroupOp):
            liveness.scan_group(step)
        elif isinstance(step, RepeatOp):
            if not liveness.scan_repeat(step):
                erase_repeat(step)
        elif isinstance(step, CollectiveOp):
            if not liveness.scan_collective(step):
                Rewriter.erase_op(step)
        elif not liveness.scan(step):
            Rewriter.erase_op(step)


def erase_repeat(repeat: RepeatOp) -> None:
    """Erases a loop, and its body unless another loop has the same one."""
    body, module = repeat.func, repeat.func.parent
    Rewriter.erase_op(repeat)
    assert module is not None
    others = [op for op in module.walk() if isinstance(op, RepeatOp)]
    if all(op.func is not body for op in others):
        for inner in [op for op in body.body.block.ops if isinstance(op, RepeatOp)]:
            erase_repeat(inner)
        Rewriter.erase_op(body)


# Why a node has no memory that nests which were fused read where they compute it.
FUSED = "used where it is computed: one nest does both"


def mark_virtual(func: FuncOp, inlined: Mapping[SSAValue, str]) -> None:
    """Makes local nodes that no nest touches any more virtual: they take no memory. `inlined` says why."""
    for op in nodes(func):
        if op.mode.data == "local" and op.result.first_use is None:
            op.set_mode("virtual", inlined.get(op.result, "never read"))


class _Liveness:
    """Scans nests backwards with the set of live nodes: those whose present content is read later."""

    def __init__(self, live: set[SSAValue]) -> None:
        self.live = live

    def scan(self, nest: NestOp) -> bool:
        """Whether the nest still stores anything."""
        overwritten: set[Cell] = set()
        stores = False
        for op in reversed(operations_of(nest.body.block)):
            if isinstance(op, StoreOp):
                stores |= self._scan_store(op, nest.space.data, overwritten)
            elif is_unused(op):
                Rewriter.erase_op(op)
            elif isinstance(op, LoadOp):
                self._read(op, overwritten)
            elif isinstance(op, ReduceOp):
                self._scan_reduce(op, overwritten)
        return stores

    def scan_group(self, group: GroupOp) -> None:
        """Scans the nests of a group, each point of which may read what others stored."""
        self.live.update(op.node for op in accesses(group) if isinstance(op, LoadOp))
        for nest in reversed(group.nests):
            if not self.scan(nest):
                Rewriter.erase_op(nest)

    def scan_repeat(self, repeat: RepeatOp) -> bool:
        """Whether a loop stores anything that is read later."""
        if self.live.isdisjoint(repeat.written):
            return False
        self.live.update(repeat.nodes)
        return True

    def scan_collective(self, collective: CollectiveOp) -> bool:
        """Whether what ranks exchange is read later; messages stay. All of the target is overwritten: by the
        start of an exchange, which its wait needs.
        """
        if collective.message is None and self.live.isdisjoint(collective.written):
            return False
        if not collective.is_wait:
            self.live.difference_update(collective.written)
        self.live.update(collective.read)
        return True

    def _scan_store(self, store: StoreOp, space: Space, overwritten: set[Cell]) -> bool:
        """Whether the store stays."""
        stored = cell(store)
        if store.node not in self.live or stored in overwritten:
            Rewriter.erase_op(store)
            return False
        overwritten.add(stored)
        if covering_axes(store, space) is not None:
            self.live.discard(store.node)
        return True

    def _scan_reduce(self, reduce: ReduceOp, overwritten: set[Cell]) -> None:
        remove_unused_operations(reduce.body.block)
        for op in operations_of(reduce.body.block):
            if isinstance(op, LoadOp):
                self._read(op, overwritten)
            elif isinstance(op, ReduceOp):
                self._scan_reduce(op, overwritten)

    def _read(self, load: LoadOp, overwritten: set[Cell]) -> None:
        self.live.add(load.node)
        overwritten.difference_update([known for known in overwritten if known[0] is load.node])
