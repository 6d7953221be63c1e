"""Turns: while a routine reads the memory of another context, no routine there runs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from weakref import WeakSet

from ocannl.runtime.systems.forks import at_fork

_numbers = itertools.count()
_all: WeakSet[Turn] = WeakSet()


class Turn:
    """A lock on the memory of one context, which runs take only where other contexts read that memory."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.lock = threading.RLock()
        self.is_shared = False
        _all.add(self)

    @contextmanager
    def held(self) -> Generator[None]:
        """A context in which no run elsewhere reads the memory, if any does."""
        with taken([self] if self.is_shared else []):
            yield


@contextmanager
def taken(turns: Iterable[Turn]) -> Generator[None]:
    """A context that holds all of these turns. They are taken in the order of their contexts, so that two
    runs never wait for each other.
    """
    with ExitStack() as stack:
        for turn in sorted(set(turns), key=lambda turn: turn.number):
            stack.enter_context(turn.lock)
        yield


def _after_fork() -> None:
    """A forked child has only the thread that forked, and that is in no run."""
    for turn in _all:
        turn.lock = threading.RLock()


at_fork(_after_fork)
