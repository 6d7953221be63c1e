"""Nests with a thread for each point, coalesced along contiguous memory; conflicting points run in turn."""

from __future__ import annotations

import math

from xdsl.ir import Block, Region

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.kernel import ForOp, LaunchOp
from ocannl.dialects.kernel.gpu import THREADS, VECTOR_BYTES
from ocannl.dialects.loops import NestOp, StoreOp
from ocannl.lowering.loops_to_kernels.draft import Draft, detached, guarded
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.schedules.strides import in_memory_order, strides

# From this many points on, a thread computes several of them, with vector loads and stores.
MANY_POINTS = 2**16


def pointwise(nest: NestOp) -> LaunchOp:
    draft = Draft.of(nest)
    clashing = nest.clashing
    serial = tuple((name, size) for name, size in nest.space.data if name in clashing)
    parallel = in_memory_order(nest, [name for name in nest.space.names if name not in clashing])
    room = THREADS
    for name in reversed(parallel):
        size = draft.sizes[name]
        registers = vector_registers(nest, name, serial == ()) if name == parallel[-1] else ()
        steps = -(-size // math.prod(registers))
        threads = steps if steps <= room else best_part(steps, room)
        if threads == 1 and not registers:
            draft.grid.append((name, size))
        elif threads == size:
            draft.block.append((name, size))
        else:
            draft.split(name, threads, registers)
        room //= threads
    draft.grid.reverse()
    draft.block.reverse()
    ops = detached(nest)
    draft.substitute(ops)
    if serial:
        ops = [ForOp(serial, Region(Block(ops)))]
    return draft.launch(nest, guarded(draft.bounds, ops))


def best_part(size: int, room: int) -> int:
    """The threads along a variable: a divisor of its size if that is more than half of `room`, else
    `room`.
    """
    part = largest_divisor(size, room)
    return part if 2 * part > room else room


def vector_registers(nest: NestOp, name: str, is_free: bool) -> tuple[int, ...]:
    """The register variable of a vector along a variable, if all accesses are contiguous or
    constant there.
    """
    points = math.prod(size for _, size in nest.space.data)
    size = dict(nest.space.data)[name]
    moves = set(strides(operations(nest.body.block), name))
    width = VECTOR_BYTES // widest_element(nest)
    if not is_free or points < MANY_POINTS or size % width or not moves <= {0, 1}:
        return ()
    return (width,)


def widest_element(nest: NestOp) -> int:
    """The bytes of the widest element that a nest stores."""
    return max((element_bytes(op.node) for op in nest.body.block.ops if isinstance(op, StoreOp)), default=4)
