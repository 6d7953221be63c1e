"""The lock around what the threads of a process share, and what a fork does with locks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from threading import Condition, RLock
from typing import Any, TypeVar

import llvmlite.binding

from ocannl.runtime.systems.forks import at_fork

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

T = TypeVar("T")

shared = RLock()
"""Held while the program under construction, the memory of contexts, or what is made once a process changes.

Passes and code generation run without it. Who holds it may call LLVM, never the other way round;
and it may wait for other threads only where these do not take it.
"""

llvm_lock = llvm.ffi.lib._lock
"""Held around every call of LLVM, by llvmlite."""


def once(function: Callable[[], T]) -> Callable[[], T]:
    """The function, which runs at its first call only, even if several threads call it at the same time.

    Later calls take no lock: a thread for which the holder of the lock waits may make them.
    """
    found: list[T] = []

    @wraps(function)
    def call() -> T:
        if not found:
            with shared:
                if not found:
                    found.append(function())
        return found[0]

    return call


@contextmanager
def without_llvm_lock(name: str) -> Generator[Callable[..., Any]]:
    """A context with one of llvmlite's functions that does not take its lock. LLVM may run in several threads
    where what they give it belongs to different contexts of LLVM. A fork waits for the end.
    """
    locked = getattr(llvm.ffi.lib, name)
    with _running:
        _Running.calls += 1
    try:
        yield getattr(locked, "_cfn", locked)
    finally:
        with _running:
            _Running.calls -= 1
            _running.notify_all()


class _Running:
    """How many threads run LLVM without its lock."""

    calls = 0


_running = Condition()


def _before_fork() -> None:
    shared.acquire()
    llvm_lock.__enter__()
    _running.acquire()
    _running.wait_for(lambda: not _Running.calls)


def _after_fork() -> None:
    _running.release()
    llvm_lock.__exit__()
    shared.release()


# Else a child would find these locks held by threads that it does not have.
at_fork(_after_fork, before=_before_fork, in_parent=_after_fork)
