"""The common part of POSIX systems."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """The XDG cache folder; None without a home."""
    return xdg_cache_home() or in_home(".cache")


def xdg_cache_home() -> Path | None:
    """The folder that XDG_CACHE_HOME names, of which XDG has a relative one ignored."""
    return _absolute(os.environ.get("XDG_CACHE_HOME", ""))


def in_home(path: str) -> Path | None:
    """A path in the user's home, if there is one."""
    return _absolute(os.path.expanduser(f"~/{path}"))


def cores() -> int:
    """All processors, of a system that does not tell which of them share a core."""
    return os.cpu_count() or 1


def no_tiles() -> bool:
    """No permission to use tile registers, of a system that is not known to give it."""
    return False


def nothing_loaded() -> tuple[str, ...]:
    """No files, of a system that does not tell them."""
    return ()


def no_caches() -> dict[int, int]:
    """No caches, of a system that does not tell them."""
    return {}


def no_symbols() -> dict[str, int]:
    """No symbols, where the loader finds all."""
    return {}


def _absolute(path: str) -> Path | None:
    return Path(path) if os.path.isabs(path) else None
