"""A cache of object code on disk, shared by all processes of a user."""

import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from ocannl.runtime.cache.trusted_files import UntrustedError, check_folder, make_folder, read, write_new
from ocannl.runtime.settings import OFF, config
from ocannl.runtime.systems.table import system

DEFAULT_MAX_BYTES = 256 * 2**20
FORMAT = "objects-v2"
SUFFIX, TEMPORARY_SUFFIX = ".o", ".tmp"
ABANDONED_AFTER_SECONDS = 3600.0
# So many processes that write at once keep the bound.
WRITERS = 8
DIGEST_BYTES = hashlib.sha256().digest_size


def entry_key(*parts: str) -> str:
    """The SHA-256 of the parts, each preceded by its length, so that no two lists of parts run together."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ObjectCache:
    """Byte strings by key, in the files of one folder.

    Entries are written whole or not at all, and checked when read, so processes may share the folder. When it
    exceeds `max_bytes`, the least recently used entries go; each process checks that at its first write, and
    whenever what several have written may have passed the bound.

    An entry that is damaged, cannot be read, or is another one's, is none. A folder or file that others own
    or may write is not read: what is in it would be run. Where nothing can be written, entries are still
    read. There is a RuntimeWarning for both.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES):
        self.folder = folder / FORMAT
        self.max_bytes = max_bytes
        self._is_trusted: bool | None = None  # unknown until the folder is there
        self._is_writable = True
        self._left: int | None = None  # how much may be written before the folder is measured again

    def get(self, key: str) -> bytes | None:
        """The entry, which becomes the most recently used one; None if there is none that can be used."""
        file = self._file(key)
        try:
            if not self._trusted():
                return None
            stored = read(file)
        except UntrustedError as error:
            self._warn(f"an entry is not used: {error}")
            return None
        except OSError:
            return None
        with suppress(OSError):  # a cache that may only be read
            os.utime(file)
        return None if stored is None else unsealed(key, stored)

    def put(self, key: str, data: bytes) -> None:
        """Stores an entry, in place of any that is there."""
        if not self._is_writable:
            return
        try:
            make_folder(self.folder)
            if self._trusted():
                self._write(self._file(key), sealed(key, data))
        except OSError as error:
            self._is_writable = False
            self._warn(f"nothing is stored: {error}")

    def _trusted(self) -> bool:
        """Whether only this user can have put entries there. Raises `FileNotFoundError` without a folder."""
        if self._is_trusted is None:
            try:
                check_folder(self.folder)
                self._is_trusted = True
            except UntrustedError as error:
                self._is_trusted = False
                self._warn(f"it is not used: {error}")
        return self._is_trusted

    def _file(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def _write(self, file: Path, data: bytes) -> None:
        temporary = file.with_suffix(f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
        try:
            write_new(temporary, data)
            os.replace(temporary, file)
        except PermissionError:
            if not file.exists():  # else somebody reads it, so that Windows keeps it
                raise
        finally:
            temporary.unlink(missing_ok=True)
        self._count(len(data))

    def _count(self, written: int) -> None:
        if self._left is not None:
            self._left -= written
        if self._left is None or self._left < 0:
            self._left = (self.max_bytes - evict(self.folder, self.max_bytes)) // WRITERS

    def _warn(self, reason: str) -> None:
        warnings.warn(f"the compile cache {self.folder}: {reason}", RuntimeWarning, stacklevel=4)


def sealed(key: str, data: bytes) -> bytes:
    """The data preceded by a checksum of it and of its key."""
    return _digest(key, data) + data


def unsealed(key: str, stored: bytes) -> bytes | None:
    """The data of a sealed entry; None if it was truncated or changed, or is that of another key."""
    digest, data = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    return data if _digest(key, data) == digest else None


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(key.encode()).digest() + data).digest()


def evict(folder: Path, max_bytes: int) -> int:
    """Deletes least recently used entries if the folder exceeds `max_bytes`; returns how many bytes are left.

    It then makes room for a quarter of the bound, so that a full cache is not scanned at every write.
    """
    entries = sorted(scan(folder))
    total = sum(size for _, size, _ in entries)
    if total <= max_bytes:
        return total
    for _, size, file in entries:
        if total <= max_bytes * 3 // 4:
            break
        with suppress(PermissionError):  # of one that somebody reads, on Windows
            file.unlink(missing_ok=True)
            total -= size
    return total


def scan(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, size and path of each entry; files that a writer abandoned are deleted on the way."""
    for item in os.scandir(folder):
        try:
            status = item.stat()
        except FileNotFoundError:  # another process deleted it
            continue
        if item.name.endswith(SUFFIX):
            yield status.st_mtime, status.st_size, Path(item.path)
        elif time.time() - status.st_mtime > ABANDONED_AFTER_SECONDS:
            Path(item.path).unlink(missing_ok=True)


def environment_cache() -> ObjectCache | None:
    """The cache that `OCANNL_CACHE` names: a folder, or `off` for none; by default the user's."""
    setting = config["cache"]
    if setting and setting.lower() in OFF:
        return None
    folder = Path(setting) if setting else user_cache_folder()
    return None if folder is None else _cache_in(folder)


def user_cache_folder() -> Path | None:
    """`ocannl` where programs keep such things on this system; None without a home."""
    folder = system().cache_folder()
    return None if folder is None else folder / "ocannl"


@cache
def _cache_in(folder: Path) -> ObjectCache:
    return ObjectCache(folder)
