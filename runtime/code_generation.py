"""Passes of LLVM's code generator that are left out: options of the process, so that who emits sets them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding

from ocannl.runtime.locks import llvm_lock

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

LEFT_OUT = (
    "lsr",  # loop strength reduction: an x86 adds a scaled index and an offset to a base for nothing
    # These find nothing to do in what the emitter writes.
    "constant-hoisting",
    "early-taildup",
    "machine-sink",
    "mergeicmps",
    "partial-libcall-inlining",
    "postra-machine-licm",
    "select-optimize",
    "tail-duplicate",
)


@contextmanager
def all_passes(are_on: bool) -> Generator[None]:
    """LLVM runs all of its passes in what is emitted meanwhile, or leaves some out. Other threads that would
    call LLVM wait. Afterwards all are on, for others in the process who use LLVM.
    """
    with llvm_lock:
        turn_all_passes(are_on)
        try:
            yield
        finally:
            turn_all_passes(True)


def turn_all_passes(are_on: bool) -> None:
    """The same for what is emitted next, where LLVM's lock cannot be held meanwhile."""
    with llvm_lock:
        if are_on != _Options.are_on:
            for name in LEFT_OUT:
                llvm.set_option("ocannl", f"--disable-{name}={str(not are_on).lower()}")
            _Options.are_on = are_on


class _Options:
    """How they are set now; LLVM has all passes on by default."""

    are_on = True
