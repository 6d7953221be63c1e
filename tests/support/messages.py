"""Messages for users: short, with the user's line and the values that clash, and nothing from inside."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc

MOST_LINES = 25
PLAIN = (oc.OcannlError, TypeError, ValueError, IndexError)
"""The errors that plain misuse may raise."""


def message_of(
    error: type[Exception] | tuple[type[Exception], ...], program: Callable[[], object], *parts: str
) -> str:
    """The message of the error that a program raises: short, with a line and these parts, not from inside."""
    with pytest.raises(error) as caught:
        program()
    message = str(caught.value)
    if isinstance(caught.value, oc.OcannlError):
        assert re.match(r"[^\n]*?:\d+: ", message), f"there is no line in:\n{message}"
    assert len(message.splitlines()) <= MOST_LINES, message
    assert "Traceback" not in message
    assert "assert" not in message.lower()
    for part in parts:
        assert part in message, f"{part!r} is not in:\n{message}"
    return message


def names_line(message: str, program: Callable[..., object], marker: str = "# here"):
    """The message names the file of the program, and its line that is marked."""
    lines, start = inspect.getsourcelines(program)
    wanted = [start + k for k, line in enumerate(lines) if marker in line]
    assert len(wanted) == 1
    assert f"{Path(inspect.getfile(program)).name}:{wanted[0]}" in message, message


def data(*shape: int, label: str = "x", axes: str | None = None) -> oc.Tensor:
    """A tensor of ones."""
    return oc.data(np.ones(shape), label=label, axes=axes)
