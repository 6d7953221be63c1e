"""Threads of an OpenMP runtime: finding it, doing without, forking, and several teams at once."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.c_library import c_library, needs_compiler
from support.layering import TESTS
from support.nests import parse_module, random_arrays, run_compiled, the_func
from support.teams import NEGATE, bound

from ocannl.runtime.cpu import openmp as openmp_module
from ocannl.runtime.cpu.openmp import POLICIES, WAITING, OpenMP, brief_waiting, load, openmp
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.systems.system import System
from ocannl.runtime.systems.table import LINUX, MACOS, WINDOWS

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


def on(monkeypatch: pytest.MonkeyPatch, system: System) -> list[str]:
    """Has runtimes looked for as on a system; notes what is tried, of which none is there."""
    asked: list[str] = []

    def record(path: str) -> OpenMP | None:
        asked.append(path)
        return None

    monkeypatch.setattr(openmp_module, "load", record)
    monkeypatch.setattr(openmp_module, "system", lambda: system)
    with pytest.warns(RuntimeWarning, match=r"one thread, since .*: `pip install 'ocannl\[threads\]'`"):
        assert inspect.unwrap(openmp)() is None
    return asked


def brought(folder: Path, *paths: str) -> list[str]:
    """Files below a folder of modules."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("no library")
    return [str(folder / path) for path in paths]


def test_libgomp_comes_before_what_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    loaded = ["/lib/libc.so.6", "/x/torch/lib/libgomp-a1b2.so.1", "/usr/lib/libiomp5.so", "/lib/libompl.so"]
    (own,) = brought(tmp_path, "torch/lib/libgomp.so.1")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    linux = replace(LINUX, loaded_files=lambda: loaded)
    assert on(monkeypatch, linux) == [*LINUX.first, *loaded[1:3], own, *LINUX.runtimes]


def test_a_second_runtime_is_not_loaded_on_a_mac(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    loaded = ["/usr/lib/libSystem.B.dylib", "/x/sklearn/.dylibs/libomp.dylib"]
    own = brought(tmp_path, "torch/lib/libomp.dylib", "sklearn/.dylibs/libomp.dylib", "brew/lib/libomp.dylib")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    mac = replace(MACOS, loaded_files=lambda: loaded, folders=(str(tmp_path / "brew/lib"),))
    assert on(monkeypatch, mac) == [loaded[1], *own[:2], *MACOS.runtimes, own[2]]


def test_runtimes_of_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    loaded = [r"C:\Windows\System32\ntdll.dll", r"C:\x\torch\lib\libiomp5md.dll", r"C:\x\libiomp5md.dll.bak"]
    own = brought(tmp_path, "Library/bin/libiomp5md.dll", "sklearn/.libs/vcomp140.dll")
    brought(tmp_path, "torch/lib/libiompstubs5md.dll")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    windows = replace(WINDOWS, loaded_files=lambda: loaded)
    assert on(monkeypatch, windows) == [*WINDOWS.first, loaded[1], *own, *WINDOWS.runtimes]


def test_what_is_no_runtime_is_passed_over(tmp_path: Path):
    (tmp_path / "libgomp.so.1").write_text("no library")
    assert load(str(tmp_path / "libgomp.so.1")) is None
    assert load("libc.so.6") is None
    assert load("none.dll") is None


# Runtimes that have parallel regions by the functions of LLVM's and of Microsoft's alone.
RUNTIMES = {
    "kmp": """
int __kmpc_global_thread_num(void *place) { return place != 0; }
void __kmpc_push_num_threads(void *place, int thread, int threads) { size = thread && place ? threads : 0; }
void __kmpc_fork_call(void *place, int count, void (*body)(int *, int *, void *, void *), ...) {
    va_list rest;
    va_start(rest, body);
    void *function = va_arg(rest, void *), *data = va_arg(rest, void *);
    for (own = size - 1; own >= 0 && count == 2 && place; own--) body(&own, &own, function, data);
    va_end(rest);
}
""",
    "vcomp": """
void omp_set_num_threads(int threads) { size = threads; }
void _vcomp_fork(int is_parallel, int count, void (*body)(void *, void *), ...) {
    va_list rest;
    va_start(rest, body);
    void *function = va_arg(rest, void *), *data = va_arg(rest, void *);
    for (own = size - 1; own >= 0 && count == 2 && is_parallel; own--) body(function, data);
    va_end(rest);
}
""",
}
COMMON = """
#include <stdarg.h>
static int own, size;
int omp_get_max_threads(void) { return 4; }
int omp_get_thread_num(void) { return own; }
int omp_get_num_threads(void) { return size; }
"""


@needs_compiler
@pytest.mark.parametrize("kind", RUNTIMES)
def test_other_interfaces_of_runtimes(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = load(c_library(COMMON + RUNTIMES[kind], tmp_path / "libother.so"))
    assert found is not None
    assert found.code is not None
    monkeypatch.setattr("ocannl.runtime.cpu.team.openmp", lambda: found)
    team = Team(3)
    run, arrays = bound(team)
    for _ in range(3):
        arrays["y"][...] = 0
        run()
        np.testing.assert_array_equal(arrays["y"], -arrays["x"])
    assert str(team) == "3 threads of libother.so"


@needs_compiler
def test_a_library_without_parallel_regions_is_no_runtime(tmp_path: Path):
    assert load(c_library(COMMON, tmp_path / "libomp.so")) is None


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


@pytest.mark.exhaustive
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
