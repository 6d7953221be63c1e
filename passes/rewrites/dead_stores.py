"""Dead-store elimination over the nests of a function, by a backward scan of liveness."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Space
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.passes.analysis.nests import Cell, cell, covering_axes, is_unused, nests, nodes
from ocannl.passes.rewrites.dead_code import remove_unused_operations


def remove_dead_stores(func: FuncOp) -> None:
    """Removes stores to local nodes that are not read, and stores that are overwritten before they are read.

    Nodes that persist are live at the end of a routine.
    """
    liveness = _Liveness({op.result for op in nodes(func) if op.mode.data != "local"})
    for nest in reversed(nests(func)):
        if not liveness.scan(nest):
            Rewriter.erase_op(nest)


def mark_virtual(func: FuncOp, inlined: set[SSAValue]) -> None:
    """Makes local nodes that no nest touches any more virtual: they take no memory."""
    for op in nodes(func):
        if op.mode.data == "local" and op.result.first_use is None:
            op.set_mode("virtual", "computed where it is used" if op.result in inlined else "never read")


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
        for op in reduce.body.block.ops:
            if isinstance(op, LoadOp):
                self._read(op, overwritten)
            elif isinstance(op, ReduceOp):
                self._scan_reduce(op, overwritten)

    def _read(self, load: LoadOp, overwritten: set[Cell]) -> None:
        self.live.add(load.node)
        overwritten.difference_update([known for known in overwritten if known[0] is load.node])
