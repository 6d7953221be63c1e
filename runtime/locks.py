"""The lock around what the threads of a process share, and what a fork does with locks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import llvmlite.binding

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

P = ParamSpec("P")
T = TypeVar("T")

shared = RLock()
"""Held while the program under construction, the memory of contexts, or what is made once a process changes.

Passes and code generation run without it. Who holds it may call LLVM, never the other way round.
"""

_llvm_lock = llvm.ffi.lib._lock  # held around every call of LLVM


def once(function: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache`, but a function that several threads call at the same time still runs once."""
    cached = cache(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with shared:
            return cached(*args, **kwargs)

    return call


def _before_fork() -> None:
    shared.acquire()
    _llvm_lock.__enter__()


def _after_fork() -> None:
    _llvm_lock.__exit__()
    shared.release()


# Else a child would find these locks held by threads that it does not have.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
