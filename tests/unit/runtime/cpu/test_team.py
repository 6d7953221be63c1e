"""Threads of an OpenMP runtime: finding it, doing without, forking, and several teams at once."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from support.layering import TESTS
from support.nests import parse_module, random_arrays, run_compiled, the_func
from support.teams import NEGATE, bound

from ocannl.runtime.cpu import openmp as openmp_module
from ocannl.runtime.cpu.openmp import (
    NAMES,
    POLICIES,
    WAITING,
    OpenMP,
    brief_waiting,
    installed_libraries,
    load,
    loaded_libraries,
    openmp,
)
from ocannl.runtime.cpu.team import Team

needs_runtime = pytest.mark.skipif(openmp() is None, reason="there is no OpenMP runtime")


def test_one_thread_needs_no_runtime(monkeypatch: pytest.MonkeyPatch):
    def forbidden() -> None:
        raise AssertionError("one thread looked for a runtime")

    monkeypatch.setattr("ocannl.runtime.cpu.team.openmp", forbidden)
    team = Team(1)
    assert team.start().tolist() == [1, 0, 0, 0]
    assert (team.threads, str(team)) == (1, "1 thread")


@pytest.mark.parametrize("given", [None, *POLICIES])
def test_threads_wait_briefly_unless_the_user_says_how(given: str | None, monkeypatch: pytest.MonkeyPatch):
    for name in POLICIES:
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(given, "5")
    before = dict(os.environ)
    with brief_waiting():
        added = os.environ.keys() - before.keys()
        assert added == (set(WAITING) if given is None else set())
    assert dict(os.environ) == before


def test_without_a_runtime_there_is_one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ocannl.runtime.cpu.team.openmp", lambda: None)
    team = Team(4)
    assert team.start().tolist() == [1, 0, 0, 0]
    assert str(team) == "1 thread, since there is no OpenMP runtime"
    module = parse_module(NEGATE)
    arrays = random_arrays(the_func(module))
    run_compiled(module, arrays, threads=4)
    np.testing.assert_array_equal(arrays["y"], -arrays["x"])


@needs_runtime
def test_a_team_tells_its_runtime():
    team = Team(3)
    found = openmp()
    assert found is not None
    assert team.start().tolist() == [3, *found.functions]
    assert str(team) == f"3 threads of {found.name}"


def test_the_systems_runtime_comes_before_a_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    maps = tmp_path / "maps"
    maps.write_bytes(
        b"7f00-7f01 r--p 00000000 00:00 1 /of \xff\xfe bytes/libc.so.6\n"
        b"7f00-7f01 r--p 00000000 00:00 1 /lib/x86_64-linux-gnu/libc.so.6\n"
        b"7f01-7f02 r--p 00000000 00:00 2 /some where/torch/lib/libgomp-a1b2.so.1\n"
        b"7f02-7f03 r-xp 00000000 00:00 2 /some where/torch/lib/libgomp-a1b2.so.1\n"
        b"7f03-7f04 r-xp 00000000 00:00 3 /usr/lib/libiomp5.so\n"
        b"7f04-7f05 r-xp 00000000 00:00 4 /usr/lib/libompl.so\n"
        b"7f05-7f06 rw-p 00000000 00:00 0 \n"
    )
    loaded = ["/some where/torch/lib/libgomp-a1b2.so.1", "/usr/lib/libiomp5.so"]
    assert list(loaded_libraries(maps)) == loaded
    assert list(loaded_libraries(tmp_path / "none")) == []

    asked: list[str] = []

    def record(path: str) -> OpenMP | None:
        asked.append(path)
        return OpenMP("libiomp5.so", (1, 2, 3)) if path == loaded[1] else None

    monkeypatch.setattr(openmp_module, "MAPPED_FILES", maps)
    monkeypatch.setattr(openmp_module, "load", record)
    assert inspect.unwrap(openmp)() == OpenMP("libiomp5.so", (1, 2, 3))
    assert asked == [*NAMES, *loaded]


def test_what_is_no_runtime_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "libgomp.so.1").write_text("no library")
    assert load(str(tmp_path / "libgomp.so.1")) is None
    assert load("libc.so.6") is None
    monkeypatch.setattr(openmp_module, "FOLDERS", (str(tmp_path),))
    assert str(tmp_path / "libgomp.so.1") in list(installed_libraries())


FORK = """
import os, sys
from support.layering import TESTS
from support.nests import parse_module, random_arrays, run_compiled, the_func
from support.teams import NEGATE, bound
from ocannl.runtime.cpu.team import Team

team = Team(2)
run, arrays = bound(team)
run()
child = os.fork()
arrays["y"][...] = 0
run()
assert (arrays["y"] == -arrays["x"]).all()
if child == 0:
    assert team.threads == 1 and str(team) == "1 thread, since this process was forked", str(team)
    assert Team(2).threads == 1
    os._exit(0)
assert team.threads == 2
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_runtime
def test_fewer_threads_than_asked_for_do_all():
    limit = """
from support.layering import TESTS
from support.nests import parse_module, random_arrays, run_compiled, the_func
from support.teams import NEGATE

module = parse_module(NEGATE)
arrays = random_arrays(the_func(module))
run_compiled(module, arrays, threads=5)
assert (arrays["y"] == -arrays["x"]).all()
"""
    run_python(limit, OMP_THREAD_LIMIT="2", OMP_DYNAMIC="true")


def run_python(text: str, **variables: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(TESTS)} | variables
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60, env=environment)


@needs_runtime
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_runs_on_one_thread():
    run_python(FORK)


@needs_runtime
def test_teams_of_several_python_threads():
    """Each Python thread has its own routine; all of them run in parallel loops at the same time."""
    routines = [bound(Team(2)) for _ in range(3)]
    start = threading.Barrier(len(routines))

    def work(run: object) -> None:
        assert callable(run)
        start.wait()
        for _ in range(50):
            run()

    workers = [threading.Thread(target=work, args=(run,)) for run, _ in routines]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    for _, arrays in routines:
        np.testing.assert_array_equal(arrays["y"], -arrays["x"])
