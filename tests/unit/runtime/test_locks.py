"""Things that a process makes once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from ocannl.runtime import locks
from ocannl.runtime.locks import once, shared, without_llvm_lock


def test_a_function_runs_once_when_several_threads_call_it():
    together, runs = Barrier(4), list[int]()

    @once
    def number() -> int:
        runs.append(len(runs))
        return 7

    def call() -> int:
        together.wait()
        return number()

    with ThreadPoolExecutor(4) as pool:
        assert [made.result() for made in [pool.submit(call) for _ in range(4)]] == [7] * 4
    assert runs == [0]


def test_a_thread_for_which_the_holder_of_the_lock_waits_may_call_it_again():
    number = once(lambda: 7)
    number()
    with ThreadPoolExecutor(1) as pool, shared:
        assert pool.submit(number).result(timeout=60) == 7


def test_a_function_that_fails_runs_again():
    results = [7]

    @once
    def number() -> int:
        if len(results) == 1:
            results.append(8)
            raise ValueError("not yet")
        return results.pop()

    with pytest.raises(ValueError, match="not yet"):
        number()
    assert [number(), number()] == [8, 8]


def test_a_fork_waits_for_llvm_that_runs_without_its_lock():
    order, inside, leave = list[str](), Event(), Event()

    def emit() -> None:
        with without_llvm_lock("LLVMPY_GetVersionInfo"):
            inside.set()
            leave.wait()
            order.append("emitted")

    def fork() -> None:
        locks._before_fork()
        order.append("forked")
        locks._after_fork()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(emit)
        inside.wait()
        forking = pool.submit(fork)
        with pytest.raises(TimeoutError):
            forking.result(timeout=0.1)
        leave.set()
    assert order == ["emitted", "forked"]
