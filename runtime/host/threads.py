"""How many threads this process uses by default: one for each of its cores."""

import os
from collections.abc import Iterable
from pathlib import Path

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.host.processor import SYSFS_CPUS
from ocannl.runtime.settings import config


def default_threads() -> int:
    """`OCANNL_THREADS`, else the number of cores of this process. Raises `DeviceError`."""
    text = config["threads"]
    if not text:
        return usable_cores()
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(f"OCANNL_THREADS is a number of threads, at least 1; found {text!r}")
    return int(text)


def usable_cores() -> int:
    """The number of cores this process may run on; hyper-threads of a core count once where that is known."""
    if hasattr(os, "sched_getaffinity"):
        return count_cores(os.sched_getaffinity(0), SYSFS_CPUS)
    return os.cpu_count() or 1


def count_cores(processors: Iterable[int], folder: Path) -> int:
    """The number of cores that processors belong to, by the siblings of each in a Linux sysfs folder."""
    cores: set[str] = set()
    for number in processors:
        siblings = folder / f"cpu{number}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else f"{number}\n")
    return len(cores)
