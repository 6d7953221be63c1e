"""Measures benchmarks: the peers take turns, each in a process of its own, and must compute the same."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import sleep

import numpy as np
from kernels import ATTENTION, kernel
from numpy.typing import NDArray
from peers import REFERENCE, Missing
from problems import STEPS
from processes import Failed, Worker

# How far what peers compute may be from PyTorch's values in float64, of operands as they are given: relative,
# and absolute to the largest of an array.
TOLERANCES = {"f32": (1e-4, 1e-5), "f64": (1e-6, 1e-7), "tf32": (1e-2, 1e-3), "bf16": (1e-2, 1e-3)}
# Scores of attention in bf16 are rounded, too, before their exponentials.
OF_SCORES = (1e-2, 2e-2)
MODES = ("call", "loop")
# Seconds until threads of the peer before no longer wait awake: those of OpenBLAS do for some 20 ms.
REST = 0.06


def calls_of(name: str) -> int:
    """How many runs a timing has on a CPU."""
    return STEPS[name]().calls if name in STEPS else kernel(name).calls


def tolerance_of(name: str) -> tuple[float, float]:
    """How far values may be off, by the precision in which all peers compute."""
    precision = STEPS[name]().precision if name in STEPS else kernel(name).precision
    is_rounded = precision == "bf16" and ATTENTION.fullmatch(name) is not None
    return OF_SCORES if is_rounded else TOLERANCES[precision]


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
    is called from Python, and of one in the peer's own loop; the most bytes that were in use; and what went
    wrong, if something did.

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
    failure: str = ""


def tell(line: str, told: set[str]) -> None:
    """Shows a line once."""
    if line not in told:
        told.add(line)
        print(line, file=sys.stderr)


def is_built(worker: Worker, name: str, told: set[str]) -> bool:
    """Whether the peer has the benchmark. What is not installed is told once."""
    try:
        worker.ask("build", name)
    except Missing as reason:
        if str(reason):
            tell(f"without {worker.peer}: {reason}", told)
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


def verify(
    found: dict[str, NDArray[np.float32]],
    expected: dict[str, NDArray[np.float32]],
    tolerance: tuple[float, float],
) -> None:
    """Raises AssertionError where a peer computes something else."""
    relative, absolute = tolerance
    for name, array in expected.items():
        shaped = found[name].reshape(array.shape)
        close = np.abs(shaped - array) <= relative * np.abs(array) + absolute * np.abs(array).max()
        if not close.all():
            wrong = tuple(np.argwhere(~close)[0].tolist())
            where = ", ".join(map(str, wrong))
            raise AssertionError(f"{name}[{where}] is {shaped[wrong]}, and {array[wrong]} in float64")


def expected_of(references: Iterable[Worker], name: str, told: set[str]) -> dict[str, NDArray[np.float32]]:
    """The values that all must compute, by the first reference that there is; none without one."""
    for reference in references:
        if is_built(reference, name, told):
            reference.ask("first")
            return reference.values()
    return {}


def prepared(
    worker: Worker, name: str, options: Options, expected: dict[str, NDArray[np.float32]], told: set[str]
) -> Measured | None:
    """The first results of a peer, which must be right; None where it has no such benchmark."""
    measured = Measured(name, worker.peer, "", options.threads)
    try:
        if not is_built(worker, name, told):
            return None
        measured.version = worker.ask("version")
        if name in STEPS:
            measure_first(measured, options)
        worker.ask("first")
        if expected:
            verify(worker.values(), expected, tolerance_of(name))
    except (Failed, AssertionError) as failure:
        measured.failure = str(failure)
    return measured


def alternate(pairs: list[tuple[Worker, Measured]], options: Options) -> None:
    """Fills in the seconds of a run; the order turns, so that no peer always follows the same one. The first
    round is not counted. Peers that fail run no more.
    """
    for turn in range(options.rounds + 1):
        first = turn % max(len(pairs), 1)
        for worker, measured in pairs[first:] + pairs[:first]:
            if options.threads > 1 and options.device == "cpu":
                sleep(REST)
            try:
                timed(worker, measured, options.calls_of(measured.name), is_counted=turn > 0)
            except Failed as failure:
                measured.failure = str(failure)
        pairs = [pair for pair in pairs if not pair[1].failure]


def timed(worker: Worker, measured: Measured, calls: int, is_counted: bool) -> None:
    """Adds the seconds of a run in each mode, if it counts."""
    for mode in MODES:
        seconds = worker.ask(mode, calls)
        if seconds is not None and is_counted:
            getattr(measured, mode).append(seconds / calls)


def measure(names: Iterable[str], options: Options) -> Iterator[list[Measured]]:
    """The time of each peer for each benchmark that it has. The `failure` of one says what it raised, or what
    it computes that PyTorch in float64 does not.
    """
    told: set[str] = set()
    with ExitStack() as stack:

        def started(peer: str, device: str) -> Worker:
            cache = stack.enter_context(tempfile.TemporaryDirectory())
            return stack.enter_context(Worker(peer, options.threads, cache, device))

        workers = [started(peer, options.device) for peer in options.peers]
        references = [started(REFERENCE, device) for device in dict.fromkeys((options.device, "cpu"))]
        for name in names:
            expected = expected_of(references, name, told)
            tried = [(worker, prepared(worker, name, options, expected, told)) for worker in workers]
            present = [(worker, measured) for worker, measured in tried if measured is not None]
            alternate([pair for pair in present if not pair[1].failure], options)
            yield [measured for _, measured in present]
