"""Runs after which ids that are not positions are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ocannl.program.indexing.id_checks import IdCheck
from ocannl.runtime.device import Memory
from ocannl.runtime.memory import HostMemory


def checked_run(run: Callable[[], None], checks: Sequence[tuple[IdCheck, Memory]]) -> Callable[[], None]:
    """A run that raises `OcannlError` afterwards if ids were no positions."""
    found = [(check, _number_in(least)) for check, least in checks]

    def run_and_check() -> None:
        run()
        for check, least in found:
            if least() != math.inf:
                check.raise_for(least())

    return run_and_check


def _number_in(memory: Memory) -> Callable[[], float]:
    """Reads memory of one number; that of the CPU in less time than others."""
    return memory.array.item if isinstance(memory, HostMemory) else lambda: memory.read().item()
