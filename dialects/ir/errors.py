"""The errors of users' programs. Every message names the user's line, where there is one."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException

from ocannl.dialects.ir.origins import at


class OcannlError(DiagnosticException):
    """Base of all errors that a user's program or file can cause."""


class ShapeError(OcannlError):
    """Shapes that do not fit, or that nothing determines."""


class SpecError(OcannlError, ValueError):
    """A malformed einsum spec, or one that does not fit its operands."""


class PrecisionError(OcannlError, TypeError):
    """An element type that does not exist, or that does not fit."""


class UninitializedError(OcannlError):
    """A node is read that nobody has written."""


class StateError(OcannlError):
    """A file that does not hold the state of the program, or that is damaged."""


class MissingFileError(StateError, FileNotFoundError):
    """A file that is not there."""


class DeviceError(OcannlError):
    """A device that is missing, or that failed."""


def location_text(op: Operation) -> str | None:
    """`file:line`, where the operation was written; with the column if that is known, in IR text. Of several
    origins, that of the first.
    """
    place = at(op.location)
    if place is None:
        return None
    column = f":{place.column.data}" if place.column.data else ""
    return f"{place.filename.data}:{place.line.data}{column}"


def at_line(op: Operation, message: str) -> str:
    """The message under the line that it is about."""
    where = location_text(op)
    return message if where is None else f"{where}: {message}"
