"""The scopes that name parameters."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from ocannl.program.errors import ArgumentError

_scope: ContextVar[tuple[str, ...]] = ContextVar("scope", default=())


def scope_path() -> tuple[str, ...]:
    """The labels of the open scopes, the outermost first."""
    return _scope.get()


@contextmanager
def inside(path: tuple[str, ...]) -> Generator[None, None, None]:
    """The scopes of a path, in place of those that are open."""
    token = _scope.set(path)
    try:
        yield
    finally:
        _scope.reset(token)


def scope(label: str) -> AbstractContextManager[None]:
    """A context in which parameters are named `label.name`; scopes nest."""
    if not isinstance(label, str):
        raise ArgumentError(f"a scope is named by a string, found {label!r}")
    return inside((*_scope.get(), label))


def scoped(name: str) -> str:
    """The full name of a parameter that is made now: the labels of the open scopes and its own, with dots."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"a parameter is called by a string, found {name!r}")
    return ".".join((*_scope.get(), name))
