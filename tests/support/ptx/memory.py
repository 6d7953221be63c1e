"""The memory that kernels of PTX reach, which counts what accesses cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.ptx.text import Instruction

Array: TypeAlias = NDArray[Any]
Bytes: TypeAlias = NDArray[np.uint8]

WARP, BANKS, BANK, SECTOR = 32, 32, 4, 32
# The bytes that shared memory gives to a warp at a time.
ROUND = BANKS * BANK
# The shared memory of a block begins at a multiple of so many bytes.
ALIGNMENT = 1024
# Who uses a word: those who think that nobody writes it, and those who do.
CONSTANT, WRITTEN = 1, 2


@dataclass
class Cost:
    """Turns of the banks, or sectors of 32 bytes, that an instruction took, and the least number."""

    taken: int = 0
    least: int = 0


@dataclass
class Counts:
    """The costs of the accesses to shared and to global memory, by instruction."""

    shared: defaultdict[Instruction, Cost] = field(default_factory=lambda: defaultdict(Cost))
    sectors: defaultdict[Instruction, Cost] = field(default_factory=lambda: defaultdict(Cost))

    def conflicts(self, looped: bool = False) -> dict[str, Cost]:
        """The accesses with bank conflicts, of loops only or of all."""
        return excess(self.shared, looped)

    def partial(self, looped: bool = False) -> dict[str, Cost]:
        """The accesses that move more sectors than they have bytes for."""
        return excess(self.sectors, looped)


def excess(costs: Mapping[Instruction, Cost], looped: bool) -> dict[str, Cost]:
    found = ((op, cost) for op, cost in costs.items() if op.is_looped or not looped)
    return {op.text: cost for op, cost in found if cost.taken > cost.least}


def distinct(keys: Array) -> Array:
    ordered = np.sort(keys)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]


def bank_turns(lanes: Array, address: Array, size: int) -> Cost:
    """Threads with so many bytes each go in rounds; a bank gives one word at a time, to all who want it."""
    rounds = lanes // (ROUND // max(size, BANK))
    words = (address[:, None] + np.arange(0, size, BANK)) // BANK
    keys = distinct((rounds[:, None] << 32 | words).reshape(-1))
    used = keys >> 32
    turns = np.bincount(used * BANKS + keys % BANKS, minlength=BANKS * (int(used.max()) + 1))
    return Cost(int(turns.reshape(-1, BANKS).max(1).sum()), len(distinct(used)))


def sectors(lanes: Array, address: Array, size: int) -> Cost:
    """The sectors that warps touch, and those that as many bytes fill."""
    warps = lanes // WARP << 48
    places = distinct(warps + (address & (1 << 40) - 1))
    touched = distinct(places >> 48 << 48 | (places & (1 << 48) - 1) // SECTOR)
    bytes = np.bincount(places >> 48) * size
    return Cost(len(touched), int((-(-bytes // SECTOR)).sum()))


class Shared:
    """The shared memory of some blocks, with undefined contents. Addresses are those inside a block.

    Attributes:
        unfenced: for each word, the number after that of the thread that wrote it, and has not fenced it
            since; 0 if there is none. `unfenced_reads` is that for threads that have read it.
    """

    def __init__(self, size: int, blocks: int, threads: int, is_noted: bool = False) -> None:
        self.is_noted = is_noted
        self.size, self.stride = size, -(-size // ALIGNMENT) * ALIGNMENT
        self.bytes: Bytes = np.full(self.stride * blocks, 0xFF, np.uint8)
        self.block = np.arange(blocks * threads) // threads * self.stride
        self.unfenced, self.unfenced_reads = np.zeros(
            (2, len(self.bytes) // BANK if is_noted else 0), np.uint32
        )

    def note(self, threads: Array, places: Array, size: int, is_read: bool = False) -> None:
        """Notes who wrote or read so many bytes, if that matters."""
        if not self.is_noted:
            return
        for offset in range(0, size, BANK):
            (self.unfenced_reads if is_read else self.unfenced)[(places + offset) // BANK] = threads + 1

    def fence(self, threads: Array) -> None:
        done = np.zeros(len(self.block) + 1, bool)
        done[threads + 1] = True
        for noted in (self.unfenced, self.unfenced_reads):
            noted[done[noted]] = 0

    def places(self, threads: Array, address: Array, size: int) -> Array:
        assert not np.any(address % size), f"an address is no multiple of {size} bytes"
        assert np.all((address >= 0) & (address + size <= self.size)), "outside of shared memory"
        return self.block[threads] + address


class Global:
    """Arrays by the addresses at which they begin, and tensor maps by the numbers that kernels get."""

    def __init__(self, arrays: Mapping[int, Bytes], maps: Mapping[int, Any] | None = None) -> None:
        self.maps = maps or {}
        self.starts = np.array(sorted(arrays), np.int64)
        self.arrays = [arrays[start] for start in sorted(arrays)]
        self.uses = [np.zeros(-(-len(array) // BANK), np.uint8) for array in self.arrays]

    def find(self, address: Array, size: int) -> list[tuple[int, Array | slice, Array]]:
        """The arrays at some addresses: which, of which addresses, and the places in them."""
        assert not np.any(address % size), f"an address is no multiple of {size} bytes"
        number = np.searchsorted(self.starts, address, "right") - 1
        found: list[tuple[int, Array | slice, Array]] = []
        for which in np.unique(number):
            chosen = slice(None) if np.all(number == which) else np.flatnonzero(number == which)
            places = address[chosen] - self.starts[which]
            assert which >= 0, "outside of all arrays"
            assert np.all(places + size <= len(self.arrays[which])), "outside of an array"
            found.append((int(which), chosen, places))
        return found

    def load(self, address: Array, size: int, count: int, is_constant: bool) -> list[Array]:
        """So many neighbours in each thread. `is_constant` if nobody may write them in this kernel."""
        results = [np.empty(len(address), f"u{size}") for _ in range(count)]
        for number, chosen, places in self.find(address, size * count):
            if is_constant:
                self.mark(number, places, size * count, CONSTANT)
            elements = elements_of(self.arrays[number], size)
            for k, result in enumerate(results):
                result[chosen] = elements[places // size + k]
        return results

    def store(self, address: Array, values: list[Array], size: int) -> None:
        for number, chosen, places in self.find(address, size * len(values)):
            self.mark(number, places, size * len(values), WRITTEN)
            elements = elements_of(self.arrays[number], size)
            for k, value in enumerate(values):
                elements[places // size + k] = value[chosen]

    def mark(self, number: int, places: Array, size: int, use: int) -> None:
        uses = self.uses[number]
        for offset in range(0, size, BANK):
            words = (places + offset) // BANK
            uses[words] |= use
            assert np.all(uses[words] == use), "memory that is said to be constant is written"


def elements_of(array: Bytes, size: int) -> Array:
    return array[: len(array) // size * size].view(f"u{size}")
