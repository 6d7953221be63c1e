"""Where in the user's program something was written."""

from __future__ import annotations

import inspect
import os
from functools import lru_cache
from pathlib import Path
from types import FrameType

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc

from ocannl import dialects, lowering, passes, runtime

# The folders of this package. An editable install has those of the layers in other places than this one.
_FOLDERS = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).parents[1],
        *dialects.__path__,
        *passes.__path__,
        *lowering.__path__,
        *runtime.__path__,
    )
)


def user_frame() -> FrameType | None:
    """The innermost frame that is not of this package: its file is in none of the package's folders."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDERS):
        frame = frame.f_back
    return frame


def user_location() -> FileLineColLoc | UnknownLoc:
    """The user's line that is running; unknown where Python tells no frames."""
    frame = user_frame()
    if frame is None:
        return UnknownLoc()
    return _line(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=2**12)
def _line(filename: str, number: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(filename), IntAttr(number), IntAttr(0))


def here(message: str) -> str:
    """A message under the user's line."""
    where = user_location()
    return message if isinstance(where, UnknownLoc) else f"{where.filename.data}:{where.line.data}: {message}"
