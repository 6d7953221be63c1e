"""Roles of warps in PTX: registers that warpgroups give back and take, and barriers of some threads.

https://docs.nvidia.com/cuda/parallel-thread-execution, "setmaxnreg", "bar, barrier"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.ptx.memory import WARP
from support.ptx.text import Instruction

if TYPE_CHECKING:
    from support.ptx.machine import Machine

Array: TypeAlias = NDArray[Any]

# The registers of a multiprocessor, those of a thread at most, and the counts that a warpgroup may have.
REGISTERS, MOST, UNIT, LEAST, LARGEST = 65536, 255, 8, 24, 256
GROUP, NAMED = 4 * WARP, 16


def granted(threads: int) -> int:
    """The registers of each thread of a block that is alone on a multiprocessor, when it begins."""
    return min(MOST, REGISTERS // threads) // UNIT * UNIT


def set_registers(machine: Machine, op: Instruction) -> None:
    """`setmaxnreg.inc` and `dec`: a warpgroup has so many registers a thread from now on."""
    how, *modes = op.modes
    (count,) = op.operands
    assert modes == ["sync", "aligned", "u32"], op.text
    assert isinstance(count, int)
    assert count % UNIT == 0, f"a thread has a multiple of {UNIT} registers: {op.text}"
    assert LEAST <= count <= LARGEST, f"a thread has {LEAST} to {LARGEST} registers: {op.text}"
    lanes = machine.lanes[machine.active]
    whole = lanes.reshape(-1, WARP) if len(lanes) % WARP == 0 else lanes[:, None]
    assert np.all(whole == whole[:, :1] // WARP * WARP + np.arange(WARP)), f"warps go together: {op.text}"
    held = machine.held_registers[machine.active]
    assert np.all(held >= count if how == "dec" else held <= count), f"registers go the other way: {op.text}"
    machine.held_registers[machine.active] = count


def check_registers(machine: Machine) -> None:
    """Raises `AssertionError` where warpgroups wait for registers that none gives back, or warps differ."""
    held = machine.held_registers.reshape(-1, machine.threads)
    most = granted(machine.threads) * machine.threads
    if machine.threads % GROUP == 0:
        groups = held.reshape(-1, GROUP)
        assert np.all(groups == groups[:, :1]), "warps of a warpgroup have other counts of registers"
    assert np.all(held.sum(1) <= most), "warpgroups wait for registers that others have"


def wait_at_barrier(machine: Machine, op: Instruction) -> None:
    """Notes at which barrier the active threads wait, and for how many."""
    number, count = (*op.operands, machine.threads)[:2]
    assert isinstance(number, int)
    assert isinstance(count, int)
    assert 0 <= number < NAMED, op.text
    assert count % WARP == 0 or count == machine.threads, f"a barrier is for whole warps: {op.text}"
    machine.waits[machine.active] = True
    machine.barriers[machine.active] = number
    machine.awaited[machine.active] = count


def open_barriers(machine: Machine) -> None:
    """Lets threads go on where as many as a barrier is for have come to it, at one place."""
    opened = False
    for number in np.unique(machine.barriers[machine.waits]):
        there = (machine.waits & (machine.barriers == number)).reshape(-1, machine.threads)
        places, counts = (a.reshape(-1, machine.threads) for a in (machine.place, machine.awaited))
        for block in np.flatnonzero(there.any(1)):
            who = there[block]
            wanted, at = np.unique(counts[block][who]), np.unique(places[block][who])
            if len(wanted) == len(at) == 1 and who.sum() == wanted[0]:
                machine.waits.reshape(-1, machine.threads)[block, who] = False
                opened = True
    assert opened, "threads of a block wait at different barriers"
