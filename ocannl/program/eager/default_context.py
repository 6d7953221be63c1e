"""The context in which values are looked up where none is named. Contexts register here."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import WeakSet

from ocannl.runtime.locks import shared


class ValueContext(Protocol):
    """The part of a context that looking up values uses."""

    def __getitem__(self, tensor: Any, /) -> Any: ...

    def __contains__(self, tensor: object, /) -> bool: ...


class DefaultContext:
    """The innermost context that `with` has entered in this thread, else one made when it is first needed.

    Attributes:
        living: all contexts.
    """

    def __init__(self) -> None:
        self.living = WeakSet[Any]()
        self._make: Callable[[], ValueContext] | None = None
        self._made: ValueContext | None = None
        self._entered: ContextVar[tuple[ValueContext, ...]] = ContextVar("entered", default=())

    def made_by(self, make: Callable[[], ValueContext]) -> None:
        """Says how the context is made."""
        self._make = make

    def get(self) -> ValueContext:
        """The context now."""
        if entered := self._entered.get():
            return entered[-1]
        if self._made is not None:
            return self._made
        with shared:
            if self._made is None:
                assert self._make is not None, "contexts are imported with the package"
                self._made = self._make()
            return self._made

    def name_of(self, context: object) -> str:
        """How a program writes a context: one that it has not made itself is that of the package."""
        return "oc.default_context()" if context is self._made else "ctx"

    def enter(self, context: ValueContext) -> None:
        """Makes a context the default in this thread."""
        self._entered.set((*self._entered.get(), context))

    def leave(self) -> None:
        """Undoes the last `enter`."""
        self._entered.set(self._entered.get()[:-1])


DEFAULT = DefaultContext()
