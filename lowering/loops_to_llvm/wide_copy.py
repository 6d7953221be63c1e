"""Emits copies in which neighbours stay neighbours: those of 32 bits move as one element."""

from __future__ import annotations

import math

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.lowering.llvm.types import ValueType
from ocannl.lowering.loops_to_llvm.nest import NestEmitter
from ocannl.lowering.loops_to_llvm.tile_emitter import RowAccess

WORD = ValueType("i32", "i32", 4)


def moving_together(nest: NestOp) -> str | None:
    """The innermost loop of a copy whose points fill 32 bits, and are neighbours in both arrays, which have
    whole words at the points of the other loops.
    """
    ops = list(nest.body.block.ops)
    if len(ops) != 2 or not isinstance(ops[0], LoadOp) or not isinstance(ops[1], StoreOp) or ops[0].positions:
        return None
    schedule = nest.schedule.data if nest.schedule is not None else Schedule()
    if not schedule.order or schedule.merged or schedule.order[-1] in dict(schedule.tiles):
        return None
    variable, addresses = schedule.order[-1], [address_of(op) for op in (ops[0], ops[1])]
    count = dict(nest.space.data)[variable]
    if count * element_bytes(ops[0].node) != WORD.bytes or ops[1].positions:
        return None
    others = [c for a in addresses for name, c in (*a.terms, ("", a.constant)) if name != variable]
    together = all(address.stride(variable) == 1 for address in addresses)
    return variable if together and math.gcd(*others) % count == 0 else None


class WideCopyEmitter(NestEmitter):
    """Emits a copy whose innermost loop is part of the elements."""

    def emit(self) -> None:
        *_, around, innermost = self.placement.levels
        self.count = innermost.size
        self.placement.levels.pop()
        around.ops += innermost.ops
        super().emit()

    def access(self, op: LoadOp | StoreOp) -> RowAccess:
        address = self.placement.addresses[op]
        last = self.schedule.order[-1]
        terms = tuple((name, c // self.count) for name, c in address.terms if name != last)
        words = Address(terms, address.constant // self.count)
        access = self.env.access(op.node, words, WORD)
        return RowAccess([access], words.stride(self.row_variable), words.stride(self.lane_variable))
