"""Runs fuzzers for long: a process that stays alive takes case after case, and its results are on disk.

    python -m support.fuzz_steadily routines 100000 --folder found      # in tests/
    python -m support.fuzz_steadily opt 100000 --folder found
    python -m support.fuzz_steadily routines --folder found --report

A process that dies or is silent for too long is replaced; the cases that it had are run one at a time then.
What is done is not done again when the same folder is given. Each line of a file of results is a chunk of
cases.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TextIO

from .layering import TESTS

SILENCE = 600.0
"""Seconds of silence after which a process is replaced."""
BUSY = 60.0
"""Seconds of the processor after which a case, or a chunk of them, is a hang."""
CASES = 4000
"""The cases of a process, after which another one is begun."""
MEMORY = 3 << 20
"""KiB of a process above which a leak is told."""
JOBS = {"routines": "fuzz_routines", "opt": "fuzz_opt", "mistakes": "fuzz_mistakes"}
Result = dict[str, Any]


class Hang(Exception):
    """A case that takes too long."""


class Job(Protocol):
    """A module whose cases are run by their numbers, of which each stands for a seed."""

    TOGETHER: int

    def run_cases(self, numbers: Sequence[int]) -> Mapping[str, int]:
        """Runs cases; gives counts of what happened. Raises what is a failure of any of them."""
        ...


def job_of(name: str) -> Job:
    module: Any = importlib.import_module(f"support.{JOBS[name]}")
    return module


def serve(job: Job) -> None:
    """Reads the numbers of cases, a line each time, and writes what came of them."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGPROF, stop)
    for line in sys.stdin:
        result = outcome(job, json.loads(line))
        answers.write(json.dumps(result | {"memory": resident()}) + "\n")
        answers.flush()


def stop(signum: int, frame: FrameType | None) -> None:
    raise Hang


def outcome(job: Job, numbers: Sequence[int]) -> Result:
    """Counts and failures; where some fail together, each is run alone."""
    try:
        signal.setitimer(signal.ITIMER_PROF, BUSY)
        return {"counts": dict(job.run_cases(numbers)), "failures": []}
    except Exception as error:  # Whatever it is, it is what is looked for.
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        if len(numbers) == 1:
            return {"counts": {}, "failures": [told(error, numbers)]}
        alone = [outcome(job, [number]) for number in numbers]
        failures = [failure for one in alone for failure in one["failures"]]
        counts = sum((Counter(one["counts"]) for one in alone), Counter[str]())
        return {"counts": counts, "failures": failures or [told(error, numbers)]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def told(error: Exception, numbers: Sequence[int]) -> Result:
    text = "".join(traceback.format_exception(error))
    return {"numbers": [*numbers], "what": f"{type(error).__name__}: {error}"[:3000], "text": text[-6000:]}


def resident() -> int:
    """KiB that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def server(name: str) -> list[str]:
    """The command of a process that serves a job."""
    return [sys.executable, "-m", "support.fuzz_steadily", name, "--serve"]


class Worker:
    """A process that runs cases."""

    def __init__(self, name: str, errors: TextIO) -> None:
        command = server(name)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=TESTS, text=True
        )
        self.cases = 0

    def answer(self, numbers: Sequence[int]) -> Result | None:
        """The result of cases; None where the process died or fell silent, and is no more."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.cases += len(numbers)
        try:
            self.process.stdin.write(json.dumps([*numbers]) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
            line = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.end()
        return None

    def end(self) -> int:
        self.process.kill()
        return self.process.wait()


class Steady:
    """A job whose results are in a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.file = name, folder / f"{name}.jsonl"
        self.errors = (folder / f"{name}.stderr").open("a")
        self.worker: Worker | None = None

    def results(self) -> Iterator[Result]:
        if self.file.exists():
            yield from map(json.loads, self.file.read_text().splitlines())

    def answer(self, numbers: Sequence[int]) -> Result | None:
        if self.worker is None or self.worker.process.poll() is not None or self.worker.cases > CASES:
            if self.worker is not None:
                self.worker.end()
            self.worker = Worker(self.name, self.errors)
        return self.worker.answer(numbers)

    def outcome(self, numbers: Sequence[int]) -> Result:
        """Cases of a process that died are run one at a time."""
        result = self.answer(numbers)
        if result is not None:
            return result
        if len(numbers) > 1:
            parts = [self.outcome([number]) for number in numbers]
            counts = sum((Counter(part["counts"]) for part in parts), Counter[str]())
            failures = [failure for part in parts for failure in part["failures"]]
            gone = {"numbers": [*numbers], "what": "the process died or was silent", "text": ""}
            return {"counts": counts, "failures": failures or [gone], "memory": 0}
        gone = {"numbers": [*numbers], "what": "the process died or was silent", "text": ""}
        return {"counts": {}, "failures": [gone], "memory": 0}

    def run(self, count: int, seed: int, together: int) -> None:
        """Runs the cases that no result is there for, `count` of them from the number `seed` million on."""
        done = {result["first"] for result in self.results()}
        tree = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=TESTS
        )
        for first in range(seed * 1_000_000, seed * 1_000_000 + count, together):
            if first in done:
                continue
            start = time.monotonic()
            numbers = range(first, min(first + together, seed * 1_000_000 + count))
            result: Result = {**self.outcome(numbers), "first": first, "cases": len(numbers)}
            if result["memory"] > MEMORY and self.worker is not None:
                grown = {"numbers": [*numbers], "what": f"{result['memory']} KiB are held", "text": ""}
                result["failures"] = [*result["failures"], grown]
                self.worker.end()
            result |= {"tree": tree.stdout.strip(), "seconds": round(time.monotonic() - start, 2)}
            with self.file.open("a") as file:
                file.write(json.dumps(result) + "\n")

    def report(self) -> str:
        """Cases by tree, counts, and failures that begin alike."""
        results = [*self.results()]
        trees, counts = Counter[str](), Counter[str]()
        failures: dict[str, list[Result]] = {}
        for result in results:
            trees[result["tree"]] += result["cases"]
            counts.update(result["counts"])
            for failure in result["failures"]:
                failures.setdefault(failure["what"][:80], []).append(failure | {"tree": result["tree"]})
        lines = [f"{trees.total()} cases: {dict(trees)}", str(dict(counts))]
        for what, some in sorted(failures.items(), key=lambda item: -len(item[1])):
            where = [(failure["tree"], *failure["numbers"]) for failure in some[:4]]
            lines.append(f"{len(some):5} {what!r} {where}")
        return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("found"))
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve(job_of(options.job))
    elif options.report:
        print(Steady(options.job, options.folder).report())
    else:
        steady = Steady(options.job, options.folder)
        steady.run(options.count, options.seed, job_of(options.job).TOGETHER)
