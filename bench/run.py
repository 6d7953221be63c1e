"""Times training steps in OCANNL beside other frameworks, where they are installed.

Each peer runs in a process of its own, pinned to the same cores; the peers take turns, and the medians of the
rounds are compared. Before that, every peer must compute the same losses from the same weights.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from problems import PROBLEMS, Problem
from worker import MODES, PEERS

WORKER = Path(__file__).with_name("worker.py")
DEFAULT_PEERS = [peer for peer in PEERS if peer != "torch.compile"]


@dataclass
class Measured:
    """Seconds: from a built model to its first result, and a step in each mode."""

    problem: str
    peer: str
    version: str
    first: list[float] = field(default_factory=list[float])
    call: list[float] = field(default_factory=list[float])
    loop: list[float] = field(default_factory=list[float])


class Missing(Exception):
    """The peer is not installed, or has no such problem."""


def environment(threads: int) -> dict[str, str]:
    """Holds every peer to the same number of threads, and to compiling anew."""
    count = str(threads)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OCANNL_THREADS")
    settings = dict.fromkeys(names, count) | {"OCANNL_CACHE": "off", "OCANNL_BACKEND": "cpu"}
    if threads == 1:
        settings["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return os.environ | settings | {"JAX_PLATFORMS": "cpu"}


class Worker:
    """A peer with a problem, in a process that waits between commands."""

    def __init__(self, peer: str, problem: str, threads: int, script: Path = WORKER):
        self.peer = peer
        self.process = subprocess.Popen(
            [sys.executable, str(script), peer, problem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(threads),
        )
        greeting = self.read()
        if "missing" in greeting:
            self.close()
            raise Missing(greeting["missing"])
        self.version: str = greeting["version"]

    def read(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.peer} stopped with exit status {self.process.wait()}")
        return json.loads(line)

    def ask(self, command: str, count: int | str = 0):
        """What the peer answers to a command with a number, or a path."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, count]) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.communicate()


def pin(threads: int) -> None:
    """Keeps this process and its workers on the first cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def first_results(peer: str, problem: str, threads: int, rounds: int) -> tuple[Worker, list[float]]:
    """Seconds to the first result in new processes, the last of which stays."""
    seconds: list[float] = []
    while True:
        worker = Worker(peer, problem, threads)
        seconds.append(worker.ask("first"))
        if len(seconds) == rounds:
            return worker, seconds
        worker.close()


def verify(workers: list[Worker], problem: Problem) -> None:
    """Every peer computes the losses that NumPy does."""
    from peer_numpy import Steps

    expected = Steps(problem).losses(problem.verified_steps)
    for worker in workers:
        losses = worker.ask("losses", problem.verified_steps)
        np.testing.assert_allclose(losses, expected, rtol=2e-3, atol=1e-4, err_msg=worker.peer)


def alternate(workers: list[Worker], results: dict[str, Measured], calls: int, rounds: int) -> None:
    """Fills in the seconds a step takes; the order turns, so that no peer always follows the same one."""
    for worker in workers:
        for mode in MODES:
            worker.ask(mode, calls)
    for turn in range(rounds):
        start = turn % len(workers)
        for worker in workers[start:] + workers[:start]:
            for mode in MODES:
                seconds = worker.ask(mode, calls)
                if seconds is not None:
                    getattr(results[worker.peer], mode).append(seconds / calls)


def measure(name: str, peers: list[str], threads: int, rounds: int, first_rounds: int) -> list[Measured]:
    problem = PROBLEMS[name]()
    workers: list[Worker] = []
    results: dict[str, Measured] = {}
    for peer in peers:
        try:
            worker, first = first_results(peer, name, threads, first_rounds)
        except Missing as reason:
            print(f"{name}: without {peer}: {reason}")
            continue
        workers.append(worker)
        results[peer] = Measured(name, peer, worker.version, first)
    verify(workers, problem)
    alternate(workers, results, problem.calls, rounds)
    for worker in workers:
        worker.close()
    return list(results.values())


def cell(seconds: list[float], base: list[float]) -> str:
    """A median, and its ratio to OCANNL's."""
    if not seconds:
        return f"{'':>20}"
    median = statistics.median(seconds)
    unit, scale = ("s ", 1) if median >= 0.1 else ("ms", 1e3) if median >= 1e-4 else ("us", 1e6)
    ratio = f"x{median / statistics.median(base):.2f}" if base else ""
    return f"{median * scale:9.2f} {unit} {ratio:>7}"


def table(results: list[Measured]) -> str:
    """Medians, each with its ratio to OCANNL's."""
    base = next((result for result in results if result.peer == "ocannl"), Measured("", "", ""))
    lines = [f"{results[0].problem:<27}{'step by step':>20}{'in a loop':>20}{'first result':>20}"]
    for result in results:
        cells = (cell(getattr(result, mode), getattr(base, mode)) for mode in (*MODES, "first"))
        lines.append(f"{result.peer + ' ' + result.version:<27}" + "".join(cells))
    return "\n".join(lines)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="default: all")
    parser.add_argument("--peer", choices=PEERS, action="append", help="default: all but torch.compile")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--first-rounds", type=int, default=3, help="new processes for the time to the first result"
    )
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    options = parser.parse_args(args)

    pin(options.threads)
    results: list[Measured] = []
    for problem in options.problem or PROBLEMS:
        measured = measure(
            problem, options.peer or DEFAULT_PEERS, options.threads, options.rounds, options.first_rounds
        )
        print(table(measured), end="\n\n")
        results += measured
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1))


if __name__ == "__main__":
    main()
