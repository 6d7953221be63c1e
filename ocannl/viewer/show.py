"""Pages of programs as files, and in the browser."""

from __future__ import annotations

import os
import re
import tempfile
import webbrowser
from abc import ABC, abstractmethod
from pathlib import Path

from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here
from ocannl.viewer.page import Program, page


class Viewable(ABC):
    """A program that can be shown: a tensor, code, a routine or a function."""

    __slots__ = ()

    @abstractmethod
    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Shows it, as `oc.view`."""


def view(program: Viewable, path: str | os.PathLike[str] | None = None) -> Path:
    """Shows a program at all levels of its compilation, side by side, in one HTML file, which needs no
    network: Python, tensor expressions, assignments, loops, LLVM IR and machine code. A line lights up all
    that it became, and that it comes from. Other views show the graph of expressions, the schedule of each
    nest, memory over time, and the time of each kernel if `profile()` has run.

    The program is a tensor, code, a routine, or a function, of which the last new signature is shown. With a
    path, the file is written there; without, to the folder for temporary files, and opened in the browser.
    Returns the path of the file. Raises `OcannlError` where it cannot be written, and what compiling raises.
    """
    if not isinstance(program, Viewable):
        way = "; oc.function of it is one, once called" if callable(program) else ""
        message = f"a tensor, code, a routine or a function is viewed, found {type(program).__name__}"
        raise ArgumentError(message + way)
    return program.view(path)


def show(program: Program, path: str | os.PathLike[str] | None = None) -> Path:
    """Writes the page of a program to a file and returns its path. Without a path it goes to the folder for
    temporary files, and is opened in the browser.

    Raises `OcannlError` where the file cannot be written, and what compiling raises.
    """
    if not isinstance(path, str | os.PathLike | None):
        raise ArgumentError(f"a page is written to a path, found {path!r}")
    text = page(program)
    if path is not None:
        return _written(Path(path), text)
    name = re.sub(r"\W+", "-", program.name) or "program"
    handle, made = tempfile.mkstemp(prefix=f"{name}-", suffix=".html")
    os.close(handle)
    file = _written(Path(made), text)
    webbrowser.open(file.as_uri())
    return file


def _written(path: Path, text: str) -> Path:
    try:
        path.write_text(text, "utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OcannlError(here(f"cannot write the page {path}: {why}")) from None
    return path
