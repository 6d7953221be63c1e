"""Runs of a routine are one at a time, since its memory is that of one run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakSet

from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.location import here
from ocannl.runtime.systems.forks import at_fork


class Exclusive:
    """The base of what runs at most once at a time, such as a routine: a second run is an error.

    Subclasses whose runs are short test `_running` and set it themselves, which is faster than a lock. The
    interpreter changes threads, and sees signals, at calls and in loops only, so not between the two.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._running = False
        _all.add(self)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """A context without other runs. Raises `OcannlError` during one."""
        if self._running:
            raise self._busy()
        self._running = True
        try:
            yield
        finally:
            self._running = False

    def _busy(self) -> OcannlError:
        message = f"routine {self.name!r} is running in another thread, and its memory is that of one run"
        return OcannlError(here(f"{message}: let threads take turns, or compile a routine for each"))

    def stopped(self) -> None:
        """A forked child has only the thread that forked, and that is in no run."""
        self._running = False


_all: WeakSet[Exclusive] = WeakSet()


def _after_fork() -> None:
    for each in _all:
        each.stopped()


at_fork(_after_fork)
