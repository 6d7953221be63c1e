"""Calls of random numbers without a key, in a function that is traced for several signatures: those of later
traces are those of the first, so that the numbers of a batch do not depend on which sizes came before.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar


class TracedCalls:
    """The calls of one function, by label and by their number among those of one label."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], int] = {}
        self._made = Counter[str]()

    def begin(self) -> None:
        """A new trace counts anew."""
        self._made.clear()

    def number(self, label: str) -> int:
        """The number of the next call of a label, which calls of no other function or place have."""
        self._made[label] += 1
        place = label, self._made[label]
        if place not in self._calls:
            self._calls[place] = next(_numbers)
        return self._calls[place]


_open: ContextVar[TracedCalls | None] = ContextVar("traced_calls", default=None)
_numbers = itertools.count()


@contextmanager
def same_calls(calls: TracedCalls) -> Generator[None]:
    """A context of one trace of a function, in which its calls have their numbers."""
    calls.begin()
    token = _open.set(calls)
    try:
        yield
    finally:
        _open.reset(token)


def number_of_call(label: str) -> int:
    """A number that tells a call apart from all others but the same one in another trace."""
    calls = _open.get()
    return next(_numbers) if calls is None else calls.number(label)
