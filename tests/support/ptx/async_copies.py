"""Asynchronous copies of PTX, `cp.async`. They write at the wait for them, and spoil their target before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.ptx import bulk_copies
from support.ptx.memory import elements_of, sectors
from support.ptx.text import Instruction

if TYPE_CHECKING:
    from support.ptx.machine import Machine

Array: TypeAlias = NDArray[Any]

UNDEFINED = 0xFF


@dataclass
class Copy:
    """An asynchronous copy of some threads: each one's group, its places in both memories, and the bytes of
    the source, after which come zeros.
    """

    threads: Array
    group: Array
    target: Array
    source: Array
    size: int
    read: Array


def run(machine: Machine, op: Instruction) -> None:
    if "commit_group" in op.modes:
        machine.groups[machine.active] += 1
    elif "bulk" in op.modes:
        bulk_copies.copy(machine, op)
    elif "wait_group" in op.modes or "wait_all" in op.modes:
        pending = op.operands[0] if op.operands else 0
        assert isinstance(pending, int)
        wait(machine, pending)
    else:
        begin(machine, op)


def begin(machine: Machine, op: Instruction) -> None:
    target, source, size, *read = op.operands
    assert isinstance(size, int)
    count = machine.value(read[0], "s32") if read else np.full(len(machine.active), size)
    inside, outside = machine.address(target, "b32"), machine.address(source)
    machine.note_shared(op, inside, size)
    if len(reads := np.flatnonzero((count > 0) & (machine.active < machine.threads))) and machine.counts:
        cost, found = machine.counts.sectors[op], sectors(machine.active[reads], outside[reads], size)
        cost.taken, cost.least = cost.taken + found.taken, cost.least + found.least
    places = machine.shared.places(machine.active, inside, size)
    machine.shared.bytes[places[:, None] + np.arange(size)] = UNDEFINED
    machine.copies.append(Copy(machine.active, machine.groups[machine.active], places, outside, size, count))


def wait(machine: Machine, pending: int) -> None:
    """Writes what the active threads copied in all groups but their last ones."""
    waiting = np.zeros(machine.count, bool)
    waiting[machine.active] = True
    kept: list[Copy] = []
    for found in machine.copies:
        done = waiting[found.threads] & (found.group < machine.groups[found.threads] - pending)
        write(machine, part(found, done))
        if not np.all(done):
            kept.append(part(found, ~done))
    machine.copies = kept


def write(machine: Machine, given: Copy) -> None:
    if not len(given.threads):
        return
    unit = min(given.size, 4)
    found = np.zeros((len(given.threads), given.size // unit), f"u{unit}")
    for count in np.unique(given.read[given.read > 0]):
        chosen = np.flatnonzero(given.read == count)
        assert not np.any(given.source[chosen] % given.size), "a copy is not aligned"
        words = machine.memory.load(given.source[chosen], unit, int(count) // unit, True)
        found[chosen, : len(words)] = np.stack(words, 1)
    words = elements_of(machine.shared.bytes, unit)
    words[given.target[:, None] // unit + np.arange(given.size // unit)] = found
    machine.shared.note(given.threads, given.target, given.size)


def part(given: Copy, chosen: Array) -> Copy:
    arrays = (given.threads, given.group, given.target, given.source)
    threads, group, target, source = (array[chosen] for array in arrays)
    return Copy(threads, group, target, source, given.size, given.read[chosen])
