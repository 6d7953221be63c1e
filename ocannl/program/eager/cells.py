"""The cells of loops while they are called, whose values are those of one iteration."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ocannl.program.values import Value, now

_depth: ContextVar[int] = ContextVar("depth", default=0)


def depth() -> int:
    """How many cells of loops are being called inside of each other."""
    return _depth.get()


@contextmanager
def in_cell() -> Generator[None]:
    """Notes that the cell of a loop is called."""
    token = _depth.set(depth() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def note_again(value: Value) -> None:
    """Notes that a value is made again: in the cell of a loop, it is one of each iteration."""
    if depth():
        value.made = now()
