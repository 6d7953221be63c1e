"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""The suffix of what is still being written; what has it belongs to a process that was ended."""


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Gives the path of a file to write, which then takes the place of `path`: a reader finds the old file or
    the new one, also after a power failure.
    """
    aside = path.with_name(f".{path.name}{PARTIAL}")
    try:
        yield aside
        _flush(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
