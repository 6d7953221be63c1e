"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ocannl.program.arguments.errors import ArgumentError
from ocannl.runtime.systems.table import system

PARTIAL = ".partial"
"""The suffix of a folder with what is still being written; one that stays is of a process that was ended."""


def check_folder(path: Path) -> None:
    """Raises `ArgumentError` where there is no folder for a file."""
    if not path.parent.is_dir():
        raise ArgumentError(f"cannot write {path}: there is no folder {path.parent}")


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Gives the path of a file to write, which then takes the place of `path`: a reader finds the old file or
    the new one, also after a power failure. Raises `ArgumentError` where there is no folder for it.
    """
    check_folder(path)
    folder = path.with_name(f".{path.name}{PARTIAL}")
    remove_partial(folder)
    folder.mkdir()
    try:
        # In a folder of its own, since a library that writes the file may have other files beside it.
        aside = folder / path.name
        yield aside
        _flush(aside)
        # A library may make files that no one else can read; the folder has the permissions of the umask.
        aside.chmod(folder.stat().st_mode & 0o666)
        os.replace(aside, path)
    finally:
        remove_partial(folder)
    _flush(path.parent)


def remove_partial(path: Path) -> None:
    """Removes what a process that was ended left unfinished, if anything."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and not system().opens_folders:
        return
    # Windows does so for who may write alone.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
