"""Where in the user's program something was written."""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import inspect
import linecache
import os
import re
import typing
import warnings
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, UnknownLoc
from xdsl.ir import Attribute

from ocannl import dialects, lowering, passes, runtime
from ocannl.dialects.ir.origins import place

_LAYERS = (dialects, passes, lowering, runtime)
# An editable install has the folders of the layers in other places than that of this package.
_FOLDERS = (str(Path(__file__).parents[1]), *(folder for layer in _LAYERS for folder in layer.__path__))
# Files of this package, and what stands between a `with` statement, a copy, a protocol, or a function of
# NumPy, and what that calls here.
_OWN = (
    contextlib.__file__,
    copy.__file__,
    functools.__file__,
    typing.__file__,
    *(folder + os.sep for folder in np.__path__),
    *(folder + os.sep for folder in _FOLDERS),
)

# The longest text of a user's expression in a message.
LONGEST = 80

PLACED = re.compile(r"[^\n]*?:\d+: ")
"""A message that begins with a line, or an expression or a file with one."""


def user_frame() -> FrameType | None:
    """The innermost frame that is not of this package: its file is in none of the package's folders."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@lru_cache(maxsize=2**12)
def _is_own(filename: str) -> bool:
    return filename.startswith(_OWN)


def users_text() -> str | None:
    """The user's expression that is running, on one line, cut where it is long; None without its source."""
    frame = user_frame()
    positions = None if frame is None else inspect.getframeinfo(frame).positions
    if frame is None or positions is None or None in positions:
        return None
    first, last, start, end = cast(tuple[int, int, int, int], tuple(positions))
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if len(lines) != last - first + 1:
        return None
    # Columns count bytes.
    coded = [line.encode() for line in lines]
    coded[-1] = coded[-1][:end]
    coded[0] = coded[0][start:]
    text = " ".join(b"".join(coded).decode(errors="replace").split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def is_result_dropped() -> bool:
    """Whether the user's call that is running is a statement by itself, so that its value goes nowhere."""
    frame = user_frame()
    if frame is None:
        return False
    after = (one for one in dis.get_instructions(frame.f_code) if one.offset > frame.f_lasti)
    following = next(after, None)
    return following is not None and following.opname == "POP_TOP"


def is_called_through(package: str) -> bool:
    """Whether a module of a package stands between the user's line and this call."""
    frame, user = inspect.currentframe(), user_frame()
    while frame is not None and frame is not user:
        if str(frame.f_globals.get("__name__")).startswith(package):
            return True
        frame = frame.f_back
    return False


def is_users_call() -> bool:
    """Whether the function that asks was called by the user's program, and not by this package."""
    frame = inspect.currentframe()
    asks = None if frame is None else frame.f_back
    caller = None if asks is None else asks.f_back
    return caller is not None and not _is_own(caller.f_code.co_filename)


def user_location() -> FileLineColLoc | UnknownLoc:
    """The user's line that is running; unknown where Python tells no frames."""
    frame = user_frame()
    if frame is None:
        return UnknownLoc()
    return _line(frame.f_code.co_filename, frame.f_lineno)


def user_line() -> str:
    """The file and the number of the user's line that is running, as messages begin."""
    where = user_location()
    return "ocannl" if isinstance(where, UnknownLoc) else f"{where.filename.data}:{where.line.data}"


@lru_cache(maxsize=2**12)
def _line(filename: str, number: int) -> FileLineColLoc:
    return place(filename, number)


def warn_at(where: Attribute, message: str) -> None:
    """A `UserWarning` at a line of the user's program; at none where Python tells no frames."""
    known = isinstance(where, FileLineColLoc)
    filename, line = (where.filename.data, where.line.data) if known else ("<unknown>", 0)
    warnings.warn_explicit(message, UserWarning, filename, line)


def placed(message: str) -> str:
    """A message under the user's line, unless it begins with one."""
    return message if PLACED.match(message) else here(message)


def here(message: str) -> str:
    """A message under the user's line."""
    where = user_location()
    return message if isinstance(where, UnknownLoc) else f"{where.filename.data}:{where.line.data}: {message}"
