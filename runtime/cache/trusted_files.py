"""Files that nobody else can have written: their content may be run as code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ocannl.runtime.systems.table import system

# What others may do to files that are refused, as OpenSSH refuses keys.
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NEW_FOLDER, NEW_FILE = 0o700, 0o600


class UntrustedError(OSError):
    """A file or folder that another user owns or may write."""


def check_folder(folder: Path) -> None:
    """Raises `UntrustedError` where others may have put files in a folder, or may put another one in its
    place; `FileNotFoundError` where there is none.
    """
    if not system().has_owners:
        return
    folder = folder.resolve(strict=True)
    _check(folder, folder.stat())
    for parent in folder.parents:
        status = parent.stat()
        if not status.st_mode & stat.S_ISVTX:  # in a sticky folder such as /tmp only the owner moves a folder
            _check(parent, status)


def read(file: Path) -> bytes | None:
    """The content of a regular file; None for anything else, which is not waited for. Raises `OSError`, and
    `UntrustedError` where others may have written it.
    """
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if system().has_owners:
            _check(file, status)
        return opened.read()


def make_folder(folder: Path) -> None:
    """Makes a folder for the user alone, and those around it that are missing."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=NEW_FOLDER, exist_ok=True)


def write_new(file: Path, data: bytes) -> None:
    """Writes a file that is not there yet, for the user alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(file, flags, NEW_FILE), "wb") as opened:
        opened.write(data)


def _check(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.getuid(), 0):
        raise UntrustedError(f"{path} belongs to another user")
    if status.st_mode & WRITABLE_BY_OTHERS:
        raise UntrustedError(f"others may write {path}: `chmod go-w` it")
