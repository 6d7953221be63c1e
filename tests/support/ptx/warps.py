"""Instructions of PTX that all threads of a warp run together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from support.ptx.matrices import multiplied, multiplied_doubles, spread
from support.ptx.memory import WARP, bank_turns
from support.ptx.text import Instruction

if TYPE_CHECKING:
    from support.ptx.machine import Machine


def check_whole(machine: Machine, op: Instruction) -> None:
    """Instructions of a warp need all of its threads."""
    if machine.active is machine.everyone and machine.threads % WARP == 0:
        return
    assert len(machine.active) % WARP == 0, op.text
    firsts = machine.active.reshape(-1, WARP)
    assert np.all(firsts == firsts[:, :1] // WARP * WARP + np.arange(WARP)), op.text


def meet(machine: Machine, op: Instruction) -> None:
    """`bar.warp.sync` of all threads of a warp."""
    check_whole(machine, op)
    assert (op.modes, op.operands) == (["warp", "sync"], [-1]), op.text


def shuffle(machine: Machine, op: Instruction) -> None:
    check_whole(machine, op)
    _, how, type = op.modes
    target, source, distance, clamp, mask = op.operands
    assert (how, clamp, mask) == ("bfly", 31, -1), op.text
    assert isinstance(distance, int)
    value = machine.value(source, type).reshape(-1, WARP)
    machine.define(target, value[:, np.arange(WARP) ^ distance].reshape(-1))


def load_matrices(machine: Machine, op: Instruction) -> None:
    check_whole(machine, op)
    targets, source = op.operands
    assert isinstance(targets, tuple)
    address = machine.address(source, "b32")
    given = np.flatnonzero(machine.active % WARP < 8 * len(targets))
    places = machine.shared.places(machine.active[given], address[given], 16)
    if machine.counts is not None and len(first := given[machine.active[given] < machine.threads]):
        cost, found = machine.counts.shared[op], bank_turns(machine.active[first], address[first], 16)
        cost.taken, cost.least = cost.taken + found.taken, cost.least + found.least
    machine.shared.note(machine.active[given], places, 16, is_read=True)
    rows = np.zeros((len(machine.active), 16), np.uint8)
    rows[given] = machine.shared.bytes[places[:, None] + np.arange(16)]
    for name, value in zip(targets, spread(rows, len(targets), "trans" in op.modes), strict=True):
        machine.define(name, value)


def multiply_matrices(machine: Machine, op: Instruction) -> None:
    check_whole(machine, op)
    result, *operands = op.operands
    assert isinstance(result, tuple)
    type = "f64" if op.modes[-1] == "f64" else "b32"
    left, right, sums = ([machine.value(v, type) for v in o] for o in operands if isinstance(o, tuple))
    if type == "f64":
        assert "m8n8k4" in op.modes, op.text
        found = multiplied_doubles(left[0], right[0], sums)
    else:
        found = multiplied(left, right, sums, op.modes[-2])
    for name, value in zip(result, found, strict=True):
        machine.define(name, value)
