"""Calls of random numbers without a key: which of them are the same.

Those of a function are told apart by its name and their number in a trace of it. So the numbers of a batch
depend neither on which sizes came before nor on which functions did, of another name or of the same one, as
a cell of a notebook that runs again makes it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@dataclass(frozen=True, slots=True)
class Call:
    """A call by its number: among those of one label in a trace of a function, or among all calls outside of
    functions.
    """

    number: int
    function: str | None = None


@irdl_attr_definition
class CallAttr(Data[Call]):
    """Tells a call apart in a program under construction; its copies have a key instead."""

    name = "texpr.call"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Call:
        parser.raise_error("a call of random numbers has no text")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data))


class TracedCalls:
    """The calls of one function, by label and by their number among those of one label."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._made = Counter[str]()

    def begin(self) -> None:
        """A new trace counts anew."""
        self._made.clear()

    def next(self, label: str) -> Call:
        """The next call of a label, which no other place of the function has."""
        self._made[label] += 1
        return Call(self._made[label], self._function)


_open: ContextVar[TracedCalls | None] = ContextVar("traced_calls", default=None)
_numbers = itertools.count()


@contextmanager
def same_calls(calls: TracedCalls) -> Generator[None]:
    """A context of one trace of a function, in which its calls are those of its other traces."""
    calls.begin()
    token = _open.set(calls)
    try:
        yield
    finally:
        _open.reset(token)


def next_call(label: str) -> Call:
    """A call that differs from all others but the same one in another trace."""
    calls = _open.get()
    return Call(next(_numbers)) if calls is None else calls.next(label)
