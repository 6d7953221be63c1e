"""Stages of a program, which the ranks along the mesh axis "stage" compute one after the other."""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

from ocannl.program.arguments.checks import integer

_open: ContextVar[int | None] = ContextVar("stage", default=None)


class Stage:
    """The scope of one stage; `with` opens it. Scopes nest, and the innermost one counts."""

    __slots__ = ("_entered", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._entered: list[Token[int | None]] = []

    def __enter__(self) -> Stage:
        self._entered.append(_open.set(self.number))
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _open.reset(self._entered.pop())


def stage(number: int) -> Stage:
    """A scope of one stage: all that is built in `with oc.stage(1):` is computed by the ranks with number 1
    along the mesh axis `"stage"`, and the parameters that it uses first are theirs.

    A stage reads what it computes itself and what earlier stages give: reading a value of a later one is an
    `OcannlError`. Expressions outside of stages are computed where most of their operands are. On one device,
    or a mesh without that axis, stages change nothing (Huang et al., "GPipe: Efficient Training of Giant
    Neural Networks using Pipeline Parallelism", 2019).

    Raises `ArgumentError` for a number that is not an integer from 0 on.
    """
    return Stage(integer(number, "the number of a stage"))


def open_stage() -> int | None:
    """The number of the stage that is being built."""
    return _open.get()
