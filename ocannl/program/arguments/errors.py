"""The error for an argument that a function does not take."""

from __future__ import annotations

from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.location import placed


class ArgumentError(OcannlError, TypeError, ValueError):
    """An argument that is not what a function takes. The message gets the user's line, unless it has one."""

    def __init__(self, message: str) -> None:
        super().__init__(placed(message))


class PositionError(ArgumentError, IndexError):
    """A position or an axis that a tensor does not have."""
