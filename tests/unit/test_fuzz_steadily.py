"""Fuzzers that run for long: processes that die are replaced, and what is done is not done again."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import fuzz_steadily
from support.fuzz_steadily import Steady, outcome

DIES, FAILS, SLEEPS = 1_000_005, 1_000_002, 2_000_000
TOGETHER = 4


def run_cases(numbers: Sequence[int]) -> dict[str, int]:
    """Cases of which one fails, one ends the process, and one never ends."""
    if DIES in numbers:
        os._exit(3)
    while SLEEPS in numbers:
        time.sleep(1)
    if FAILS in numbers:
        raise ValueError("a case is wrong")
    return {"right": len(numbers)}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steady:
    """A job of this file."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "steady_cases.py").write_text(Path(__file__).read_text())
    server = (
        "import sys; sys.path[:0] = [sys.argv[1], '.']; import steady_cases as job\n"
        "from support.fuzz_steadily import serve; serve(job)"
    )
    command = [sys.executable, "-c", server, str(folder)]
    monkeypatch.setattr(fuzz_steadily, "server", lambda name: command)
    return Steady("cases", tmp_path)


def test_failures_are_those_of_cases(steady: Steady):
    steady.run(10, 1, TOGETHER)
    results = [*steady.results()]
    assert [result["first"] for result in results] == [1_000_000, 1_000_004, 1_000_008]
    failures = {f["numbers"][0]: f["what"] for result in results for f in result["failures"]}
    silent = "the process died or was silent"
    assert failures == {FAILS: "ValueError: a case is wrong", DIES: silent}
    assert sum((Counter(result["counts"]) for result in results), Counter[str]())["right"] == 8
    assert "    1 'ValueError: a case is wrong'" in steady.report()


def test_a_process_that_is_silent_is_ended(steady: Steady, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuzz_steadily, "SILENCE", 0.1)
    assert steady.answer([SLEEPS]) is None
    assert steady.worker is not None
    assert steady.worker.process.poll() is not None


def test_what_is_done_is_not_done_again(steady: Steady):
    steady.run(4, 1, 1)
    before = steady.file.read_text()
    steady.run(5, 1, 1)
    assert steady.file.read_text().startswith(before)
    assert len([*steady.results()]) == 5
    assert steady.worker is not None
    steady.worker.end()


def test_cases_that_fail_together_only():
    class Job:
        TOGETHER: int = 2

        def run_cases(self, numbers: Sequence[int]) -> dict[str, int]:
            if len(numbers) > 1:
                raise KeyError("both")
            return {"right": 1}

    found = outcome(Job(), [1, 2])
    assert found["counts"] == {"right": 2}
    assert [failure["numbers"] for failure in found["failures"]] == [[1, 2]]
