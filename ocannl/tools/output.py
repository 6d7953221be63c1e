"""Where a tool writes: errors there are told apart from errors in the input."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import FileIO, TextIOWrapper
from typing import IO


class OutputError(Exception):
    """The output cannot be written."""


class Output:
    """A file, or standard output if none is named. What goes wrong is an `OutputError`."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        with self.writing():
            self.stream: IO[str] | None = sys.stdout if path is None else TextIOWrapper(FileIO(path, "w"))

    def write(self, text: str) -> None:
        with self.writing():
            if self.stream is None:
                raise OSError("it is closed")
            self.stream.write(text)

    def flush(self) -> None:
        with self.writing():
            if self.stream is not None:
                self.stream.flush()

    def close(self) -> None:
        with self.writing():
            if self.stream is not None and self.stream is not sys.stdout:
                self.stream.close()

    @contextmanager
    def writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            if self.path is None:
                _forget_output()
            what = self.path or "standard output"
            raise OutputError(f"cannot write {what}: {error.strerror or error}") from None


def _forget_output() -> None:
    """Lets what is left unwritten go nowhere when Python ends, and not fail again."""
    with suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
