"""A cache of object code on disk, shared by all processes of a user."""

import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DEFAULT_MAX_BYTES = 256 * 2**20
FORMAT = "objects-v1"
SUFFIX, TEMPORARY_SUFFIX = ".o", ".tmp"
ABANDONED_AFTER_SECONDS = 3600.0
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
    whenever its own writes may have passed the bound. A folder that cannot be used gives one RuntimeWarning,
    and the cache is then empty.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES):
        self.folder = folder / FORMAT
        self.max_bytes = max_bytes
        self._usable = True
        self._bytes_at_most: int | None = None  # unknown until the first write

    def get(self, key: str) -> bytes | None:
        """The entry, which becomes the most recently used one; None if there is none or it is damaged."""
        if not self._usable:
            return None
        file = self._file(key)
        try:
            stored = file.read_bytes()
            os.utime(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        return unsealed(stored)

    def put(self, key: str, data: bytes) -> None:
        """Stores an entry, in place of any that is there."""
        if not self._usable:
            return
        try:
            self._write(self._file(key), sealed(data))
        except OSError as error:
            self._give_up(error)

    def _file(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def _write(self, file: Path, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
        self._count(len(data))

    def _count(self, written: int) -> None:
        if self._bytes_at_most is not None:
            self._bytes_at_most += written
        if self._bytes_at_most is None or self._bytes_at_most > self.max_bytes:
            self._bytes_at_most = evict(self.folder, self.max_bytes)

    def _give_up(self, error: OSError) -> None:
        self._usable = False
        warnings.warn(f"the compile cache {self.folder} is not used: {error}", RuntimeWarning, stacklevel=4)


def sealed(data: bytes) -> bytes:
    """The data preceded by its checksum."""
    return hashlib.sha256(data).digest() + data


def unsealed(stored: bytes) -> bytes | None:
    """The data of a sealed entry; None if it was truncated or changed."""
    digest, data = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


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
    """The cache that `OCANNL_CACHE` names: a folder, or `off` for none; else the user's default."""
    setting = os.environ.get("OCANNL_CACHE", "")
    if setting == "off":
        return None
    folder = Path(setting) if setting else user_cache_folder()
    return None if folder is None else _cache_in(folder)


def user_cache_folder() -> Path | None:
    """`ocannl` in the XDG cache folder; None without a home. XDG has a relative XDG_CACHE_HOME ignored."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return Path(base) / "ocannl" if os.path.isabs(base) else None


@cache
def _cache_in(folder: Path) -> ObjectCache:
    return ObjectCache(folder)
