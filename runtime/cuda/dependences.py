"""Which kernels of a routine wait for which: those of which one writes memory that both use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ocannl.runtime.kernel_plan import KernelRun

Use: TypeAlias = tuple[int, int, int, bool]
"""The number of a kernel, the first byte that it uses and the first beyond, and whether it writes."""
# Of more kernels, as of long loops, each waits for the one before: the sets of ancestors would be too large.
MOST_KERNELS = 1 << 12


def dependences(runs: Sequence[KernelRun]) -> list[list[int]]:
    """For each kernel the earlier ones that it waits for, transitively reduced: if one of these waits for
    another, the latter is left out.
    """
    if len(runs) > MOST_KERNELS:
        return [[number - 1] if number else [] for number in range(len(runs))]
    used: dict[int, list[Use]] = {}
    found: list[list[int]] = []
    ancestors: list[int] = []
    for number, run in enumerate(runs):
        before: set[int] = set()
        for slot, start, end, writes in uses(run):
            others = used.setdefault(slot, [])
            shared = (use for use in others if use[1] < end and start < use[2])
            before |= {other for other, _, _, wrote in shared if wrote or writes}
            if writes:
                others[:] = [use for use in others if not (start <= use[1] and use[2] <= end)]
            others.append((number, start, end, writes))
        found.append(nearest(before - {number}, ancestors))
        ancestors.append(ancestors_of(found[-1], ancestors))
    return found


def uses(run: KernelRun) -> list[tuple[int, int, int, bool]]:
    """The memory of a kernel: slot, first byte, first byte beyond, and whether it writes there."""
    parts = zip(run.kernel.buffers, run.buffers, run.sizes, strict=True)
    return [(slot, at, at + size, name in run.kernel.writes) for name, (slot, at), size in parts]


def nearest(kernels: set[int], ancestors: Sequence[int]) -> list[int]:
    """Those kernels that are no ancestors of others; `ancestors` are sets of bits."""
    kept: list[int] = []
    seen = 0
    for kernel in sorted(kernels, reverse=True):
        if not seen >> kernel & 1:
            kept.append(kernel)
            seen |= ancestors[kernel]
    return kept[::-1]


def ancestors_of(kernels: Sequence[int], ancestors: Sequence[int]) -> int:
    """Kernels and their ancestors, as a set of bits."""
    found = 0
    for kernel in kernels:
        found |= ancestors[kernel] | 1 << kernel
    return found
