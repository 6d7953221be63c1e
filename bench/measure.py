"""Measures benchmarks: the peers take turns, each in a process of its own, and must compute the same."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import sleep

import numpy as np
from kernels import kernel
from numpy.typing import NDArray
from peers import REFERENCE, Missing
from problems import STEPS
from processes import Worker

# How far what peers compute may be from PyTorch's values in float64, of operands as they are given: relative,
# and absolute to the largest of an array.
TOLERANCES = {"f32": (1e-4, 1e-5), "tf32": (1e-2, 1e-3), "bf16": (1e-2, 1e-3)}
MODES = ("call", "loop")
# Seconds until threads of the peer before no longer wait awake: those of OpenBLAS do for some 20 ms.
REST = 0.06


def calls_of(name: str) -> int:
    """How many runs a timing has on a CPU."""
    return STEPS[name]().calls if name in STEPS else kernel(name).calls


@dataclass(frozen=True)
class Options:
    """How much is measured: rounds of runs, and of new processes for the time to the first result; how many
    runs a timing has; and on what device. What is verified is computed on the CPU.
    """

    peers: tuple[str, ...]
    threads: int = 1
    rounds: int = 21
    first_rounds: int = 3
    calls_of: Callable[[str], int] = calls_of
    device: str = "cpu"


@dataclass
class Measured:
    """Seconds to the first result of what is built, with empty and with filled caches; seconds of a run that
    is called from Python, and of one in the peer's own loop; and the most bytes that were in use.

    Steps have all of that, kernels `call` alone.
    """

    name: str
    peer: str
    version: str
    threads: int
    cold: list[float] = field(default_factory=list[float])
    warm: list[float] = field(default_factory=list[float])
    call: list[float] = field(default_factory=list[float])
    loop: list[float] = field(default_factory=list[float])
    memory: int = 0


def is_built(worker: Worker, name: str, told: set[str]) -> bool:
    """Whether the peer has the benchmark. What is not installed is told once."""
    try:
        worker.ask("build", name)
    except Missing as reason:
        line = f"without {worker.peer}: {reason}"
        if str(reason) and line not in told:
            told.add(line)
            print(line, file=sys.stderr)
        return False
    return True


def measure_first(measured: Measured, options: Options) -> None:
    """First results, in new processes; the memory is that of one which found its code in the cache."""
    for _ in range(options.first_rounds):
        with tempfile.TemporaryDirectory() as cache:
            for seconds in (measured.cold, measured.warm):
                with Worker(measured.peer, options.threads, cache, options.device) as worker:
                    worker.ask("build", measured.name)
                    seconds.append(worker.ask("first"))
                    measured.memory = worker.ask("memory")


def verify(worker: Worker, expected: dict[str, NDArray[np.float64]], precision: str) -> None:
    """Raises AssertionError where a peer computes something else."""
    found, (relative, absolute) = worker.values(), TOLERANCES[precision]
    for name, array in expected.items():
        atol = absolute * float(np.abs(array).max())
        shaped = found[name].reshape(array.shape)
        np.testing.assert_allclose(shaped, array, rtol=relative, atol=atol, err_msg=f"{worker.peer}: {name}")


def alternate(workers: Sequence[Worker], results: Sequence[Measured], calls: int, rounds: int) -> None:
    """Fills in the seconds of a run; the order turns, so that no peer always follows the same one."""
    pairs = list(zip(workers, results, strict=True))
    for worker, _ in pairs:
        for mode in MODES:
            worker.ask(mode, calls)
    for turn in range(rounds):
        first = turn % len(pairs)
        for worker, measured in pairs[first:] + pairs[:first]:
            if measured.threads > 1:
                sleep(REST)
            for mode in MODES:
                seconds = worker.ask(mode, calls)
                if seconds is not None:
                    getattr(measured, mode).append(seconds / calls)


def measure(names: Iterable[str], options: Options) -> Iterator[list[Measured]]:
    """The time of each peer for each benchmark that it has. Raises AssertionError if one does not compute
    what PyTorch computes in float64.
    """
    told: set[str] = set()
    with ExitStack() as stack:
        *workers, reference = (
            stack.enter_context(
                Worker(peer, options.threads, stack.enter_context(tempfile.TemporaryDirectory()), device)
            )
            for peer, device in (*((peer, options.device) for peer in options.peers), (REFERENCE, "cpu"))
        )
        for name in names:
            present = [worker for worker in workers if is_built(worker, name, told)]
            results = [Measured(name, w.peer, w.ask("version"), options.threads) for w in present]
            for worker, measured in zip(present, results, strict=True):
                if name in STEPS:
                    measure_first(measured, options)
                worker.ask("first")
            if present and is_built(reference, name, told):
                reference.ask("first")
                expected = reference.values()
                for worker in present:
                    verify(worker, expected, "f32" if name in STEPS else kernel(name).precision)
            if present:
                alternate(present, results, options.calls_of(name), options.rounds)
            yield results
