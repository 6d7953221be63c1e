"""Whether eager mode is on, in this thread."""

from __future__ import annotations

from contextvars import ContextVar

_is_on: ContextVar[bool] = ContextVar("eager", default=False)


def is_eager() -> bool:
    """Whether eager mode is on."""
    return _is_on.get()


class mode:
    """A context with eager mode on or off."""

    __slots__ = ("_on", "_token")

    def __init__(self, on: bool) -> None:
        self._on = on

    def __enter__(self) -> None:
        self._token = _is_on.set(self._on)

    def __exit__(self, *error: object) -> None:
        _is_on.reset(self._token)


def switch(on: bool) -> None:
    """Turns eager mode on or off, in this thread."""
    _is_on.set(on)
