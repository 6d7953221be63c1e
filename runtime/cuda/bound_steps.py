"""The steps of a routine on its arguments: kernels, and what ranks exchange between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ocannl.lowering.entry import EntryLayout
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.graph import Launch
from ocannl.runtime.kernel_plan import ExchangeRun, Index, KernelRun
from ocannl.runtime.memory import ArgBlock


class BoundLaunch(Launch):
    """A kernel, one of some functions, whose arguments are slots of a routine's, and indices of loops."""

    def __init__(
        self, device: Gpu, run: KernelRun, functions: Mapping[str, Any], layout: EntryLayout, args: ArgBlock
    ) -> None:
        self.step = run.step
        self.where = [i if i.slot is None else Index(i.slot - layout.index_slot) for i in run.indices]
        self.is_indexed = any(index.slot is not None for index in run.indices)
        self.indices = [
            index.value if index.slot is None else args.index(index.slot) for index in run.indices
        ]
        addresses = [int(args.slots[slot]) + offset for slot, offset in run.buffers]
        values = np.array([*addresses, *self.indices], np.int64)
        super().__init__(device, run.kernel, functions[run.kernel.function], values)

    def take(self, indices: Sequence[int]) -> bool:
        """Sets the kernel's indices from those of the routine; returns whether one of them has changed."""
        now = [index.value if index.slot is None else indices[index.slot] for index in self.where]
        if now == self.indices:
            return False
        self.indices = now
        self.values[len(self.values) - len(now) :] = now
        return True


class Exchanging(Protocol):
    """Puts the collectives of a rank, by their numbers, into the stream of its GPU."""

    def exchange(self, number: int, target: int, source: int) -> None: ...


class BoundExchange:
    """A collective between two addresses."""

    def __init__(self, run: ExchangeRun, exchanger: Exchanging, args: ArgBlock) -> None:
        self.step = run.step
        self.number = run.number
        self.exchanger = exchanger
        self.target, self.source = (int(args.slots[s]) + offset for s, offset in (run.target, run.source))

    def launch(self) -> None:
        """Puts it after all that was launched before. Raises `DeviceError`."""
        self.exchanger.exchange(self.number, self.target, self.source)
