"""Bulk copies of PTX: boxes of tensors, and the mbarriers at which threads wait for them.

A copy writes when the first thread waits for it, and spoils its target before. The phase of an mbarrier ends
when all threads have arrived that it counts, and all bytes have come that it was told to expect.

https://docs.nvidia.com/cuda/parallel-thread-execution, "mbarrier", "cp.async.bulk.tensor"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.ptx.memory import BANK, SECTOR, elements_of
from support.ptx.text import Address, Instruction, Place

if TYPE_CHECKING:
    from support.ptx.machine import Machine

Array: TypeAlias = NDArray[Any]

BYTES, UNDEFINED = 8, 0xFF
# A swizzled box begins at a multiple of so many bytes, those of a row.
ROW = 128


@dataclass(frozen=True)
class TensorMap:
    """A tensor and the size of a box of it, swizzled by 128 bytes. The axis of neighbours is the first.

    Attributes:
        strides: the bytes from an element to the next one along all axes but the first.
        rounds: copies round f32 to TF32.
    """

    address: int
    bytes: int
    sizes: Sequence[int]
    strides: Sequence[int]
    box: Sequence[int]
    rounds: bool = False

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.box)) * self.bytes

    def elements(self, first: Sequence[int]) -> tuple[Array, Array]:
        """The addresses of the elements of a box in order, and which of them are inside the tensor."""
        address, inside = np.array([self.address]), np.array([True])
        axes = zip(first, self.sizes, (self.bytes, *self.strides), self.box, strict=True)
        for start, size, stride, count in reversed([*axes]):
            index = start + np.arange(count)
            address = (address[:, None] + index * stride).reshape(-1)
            inside = (inside[:, None] & (index >= 0) & (index < size)).reshape(-1)
        return address, inside


@dataclass
class Flight:
    """A copy that is on its way: from where in a tensor, and its places in shared memory."""

    map: TensorMap
    first: Sequence[int]
    places: Array


@dataclass
class Mbarrier:
    """A barrier in the shared memory of a block.

    Attributes:
        count: the arrivals in a phase, of which so many are `pending`.
        expected: the bytes that have to come in this phase.
        unfenced: the thread that has made it, and has not said so to the hardware that copies.
    """

    count: int
    pending: int
    unfenced: int | None
    phase: int = 0
    expected: int = 0
    flights: list[Flight] = field(default_factory=list[Flight])


def run(machine: Machine, op: Instruction) -> None:
    """Any instruction of mbarriers but those that wait."""
    address = next(operand for operand in op.operands if isinstance(operand, Address))
    places = machine.shared.places(machine.active, machine.address(address, "b32"), BYTES)
    if op.modes[0] == "init":
        counts = machine.value(op.operands[1], "u32")
        for thread, place, count in zip(machine.active, places, counts, strict=True):
            assert int(place) not in machine.mbarriers, "an mbarrier is made twice"
            machine.mbarriers[int(place)] = Mbarrier(int(count), int(count), int(thread))
        return
    for number, place in enumerate(places):
        found = mbarrier_at(machine, int(place))
        if op.modes[0] == "expect_tx":
            assert found.pending, "bytes are expected in a phase that is about to end"
            found.expected += int(machine.value(op.operands[1], "u32")[number])
        else:
            assert op.modes[0] == "arrive", op.text
            assert found.pending, "more threads arrive than a phase has"
            found.pending -= 1
            if not found.flights:
                end_phase(machine, found)
            elif not found.pending:
                machine.held[:] = False  # Who waits for the copies tries again.


def mbarrier_at(machine: Machine, place: int) -> Mbarrier:
    assert place in machine.mbarriers, "there is no mbarrier"
    return machine.mbarriers[place]


def end_phase(machine: Machine, found: Mbarrier) -> None:
    """Ends the phase if all have arrived, and does what is on its way."""
    if found.pending:
        return
    came = sum(flight.map.box_bytes for flight in found.flights)
    assert came == found.expected, f"a phase expects {found.expected} bytes, and {came} come"
    for flight in found.flights:
        land(machine, flight)
    found.flights.clear()
    found.expected, found.pending, found.phase = 0, found.count, found.phase + 1
    machine.held[:] = False


def land(machine: Machine, flight: Flight) -> None:
    size = flight.map.bytes
    address, inside = flight.map.elements(flight.first)
    values = np.zeros(len(address), f"u{size}")
    if np.any(inside):
        (values[inside],) = machine.memory.load(address[inside], size, 1, True)
    if flight.map.rounds:
        assert size == np.dtype(np.float32).itemsize
        values = rounded_to_even(values)
    elements_of(machine.shared.bytes, size)[flight.places // size] = values


def rounded_to_even(bits: Array) -> Array:
    """Numbers of f32 as the nearest ones of TF32, of two the even one; NaNs are one: so an H100 rounds."""
    found = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(bits.view(np.float32)), np.uint32(0x7FFFE000), found)


def waits_for(machine: Machine, op: Instruction) -> Array:
    """Which of the active threads wait for a phase that has not ended (`mbarrier.try_wait.parity`)."""
    assert op.modes[:2] == ["try_wait", "parity"], op.text
    target, address, parity = op.operands
    places = machine.shared.places(machine.active, machine.address(address, "b32"), BYTES)
    parities = machine.value(parity, "u32")
    held = np.zeros(len(machine.active), bool)
    for number, (place, wanted) in enumerate(zip(places, parities, strict=True)):
        found = mbarrier_at(machine, int(place))
        if found.phase % 2 == wanted:
            end_phase(machine, found)
        held[number] = found.phase % 2 == wanted
    machine.define(target, ~held)
    return held


def copy(machine: Machine, op: Instruction) -> None:
    """`cp.async.bulk.tensor` from a tensor to shared memory."""
    target, source, barrier = op.operands
    assert isinstance(source, Place)
    starts = machine.shared.places(machine.active, machine.address(target, "b32"), ROW)
    barriers = machine.shared.places(machine.active, machine.address(barrier, "b32"), BYTES)
    maps = machine.value(source.base, "u64")
    indices = [machine.value(index, "s32") for index in source.indices]
    for number, (thread, start, at) in enumerate(zip(machine.active, starts, barriers, strict=True)):
        map, found = machine.memory.maps[int(maps[number])], mbarrier_at(machine, int(at))
        assert f"{len(map.sizes)}d" in op.modes, op.text
        assert found.unfenced is None, "a copy comes to an mbarrier that is not fenced"
        linear = start + np.arange(0, map.box_bytes, map.bytes)
        places = linear ^ (linear >> 7 & 7) << 4
        block = machine.shared.block[thread]
        assert linear[-1] - block < machine.shared.size, "outside of shared memory"
        words = places // BANK
        touched = machine.shared.unfenced[words] | machine.shared.unfenced_reads[words]
        assert not np.any(touched), "a copy overwrites what threads touched and did not fence"
        elements_of(machine.shared.bytes, map.bytes)[places // map.bytes] = ~np.array(0, f"u{map.bytes}")
        first = [int(index[number]) for index in indices]
        found.flights.append(Flight(map, first, places))
        if machine.counts is not None and thread < machine.threads:
            address, inside = map.elements(first)
            cost = machine.counts.sectors[op]
            cost.taken += len(np.unique(address[inside] // SECTOR))
            cost.least += -(-int(inside.sum()) * map.bytes // SECTOR)


def fence(machine: Machine) -> None:
    """The active threads say to the hardware what they did."""
    threads = set(machine.active.tolist())
    for found in machine.mbarriers.values():
        if found.unfenced in threads:
            found.unfenced = None
