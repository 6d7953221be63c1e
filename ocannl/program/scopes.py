"""Scopes, which give memory its path: blocks, scopes and a label."""

from __future__ import annotations

import itertools
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType

from ocannl.program.arguments.errors import ArgumentError

_made = itertools.count()


class Scope:
    """One scope, which may be entered again. Others of its label are not the same; `order` counts them all in
    the order in which they were made.
    """

    __slots__ = ("_around", "_entered", "label", "order")

    def __init__(self, label: str, around: tuple[Scope, ...]) -> None:
        self.label = label
        self.order = next(_made)
        self._around = around
        self._entered: list[Token[tuple[Scope, ...]]] = []

    @property
    def path(self) -> tuple[Scope, ...]:
        """The scopes around it, the outermost first, and itself."""
        return (*self._around, self)

    def __enter__(self) -> Scope:
        self._entered.append(_open.set(self.path))
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _open.reset(self._entered.pop())


# The path of the scope that is open.
_open: ContextVar[tuple[Scope, ...]] = ContextVar("scopes", default=())


def scope(label: str) -> Scope:
    """Parameters made in `with oc.scope("mlp"):` are called `mlp.name`; scopes nest.

    Two scopes of one label are told apart by numbers, in the order in which they were made, where names would
    repeat: `mlp.w`, `mlp_1.w`. To go on in the same one, keep it: `at = oc.scope("mlp")`, `with at:`.
    """
    if not isinstance(label, str):
        raise ArgumentError(f"a scope is named by a string, found {label!r}")
    return Scope(label, _open.get())


@dataclass(frozen=True, eq=False, slots=True)
class MemoryPath:
    """Where memory was made: in what scopes, the outermost first, under what label, and when, in the order
    of all scopes and memory.
    """

    scopes: tuple[Scope, ...]
    label: str
    order: int

    @property
    def text(self) -> str:
        """The labels, without numbers."""
        return ".".join([*(scope.label for scope in self.scopes), self.label])


def memory_path(label: str, *, in_scope: bool = True, of: MemoryPath | None = None) -> MemoryPath:
    """The path of memory that is made here: in the open scope, or in none. Memory that belongs to other
    memory has the path of that inside the open scope, so that both are numbered alike.
    """
    if not isinstance(label, str) or not label:
        raise ArgumentError(f"memory is called by a string that is not empty, found {label!r}")
    scopes = _open.get() if in_scope else ()
    if of is not None:
        scopes, label = (*scopes, *of.scopes), f"{of.label}.{label}"
    return MemoryPath(scopes, label, next(_made))


def scoped(label: str) -> str:
    """A label with those of the scopes that are open."""
    return memory_path(label).text
