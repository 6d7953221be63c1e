"""The facts of an operating system, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ocannl.dialects.records import dataclass


@dataclass(frozen=True)
class System:
    """An operating system.

    Attributes:
        name: as people call it.
        triple: what follows the architecture in LLVM's triple of it.
        first: OpenMP runtimes, by names that its loader may find, that get along with others in a process.
        runtimes: others. A second one of those in a process may end it, so that one that is loaded comes
            before, and those that packages will load.
        library: a regular expression of the file names of such runtimes.
        brought: where packages bring them, in the environment and in folders of Python's modules.
        folders: where package managers put them.
        linkers: the commands that link a library, and what they are told beside files.
        has_owners: whether files have owners, and permissions for others.
        opens_folders: whether folders can be opened as files are.
        loaded_files: the libraries that this process has loaded.
        cores: how many cores this process may use; hyper-threads of a core count once.
        caches: the bytes of the data caches by level that belong to one core alone.
        permits_tiles: whether this process may use the tile registers of its processor, for which it asks.
        symbols: functions and data that compiled code refers to and that have to be told to who loads it.
        cache_folder: where programs keep what they can make again; None without a home.
    """

    name: str
    triple: str
    first: tuple[str, ...]
    runtimes: tuple[str, ...]
    library: str
    brought: tuple[str, ...]
    folders: tuple[str, ...]
    linkers: tuple[str, ...]
    link_options: tuple[str, ...]
    has_owners: bool
    opens_folders: bool
    loaded_files: Callable[[], Iterable[str]]
    cores: Callable[[], int]
    caches: Callable[[], Mapping[int, int]]
    permits_tiles: Callable[[], bool]
    symbols: Callable[[], Mapping[str, int]]
    cache_folder: Callable[[], Path | None]
