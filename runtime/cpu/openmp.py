"""The OpenMP runtime of this process: the system's, else one that a package brought."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from ocannl.dialects.records import dataclass
from ocannl.runtime.cpu.parallel_regions import PARALLEL, address, parallel
from ocannl.runtime.host.jit import CompiledModule
from ocannl.runtime.locks import once
from ocannl.runtime.systems.table import system

MISSING = "all runs on one thread, since there is no OpenMP runtime: `pip install 'ocannl[threads]'` gets one"
FUNCTIONS = (PARALLEL, "omp_get_thread_num", "omp_get_num_threads")


@dataclass(frozen=True)
class OpenMP:
    """A runtime: the name of its file, and the addresses of its `FUNCTIONS`; and our code for one of them,
    where it has only others.
    """

    name: str
    functions: tuple[int, ...]
    code: CompiledModule | None = field(default=None, compare=False)


# How long threads wait awake, unless the user says it: in turns of libgomp, in milliseconds of LLVM.
# A thread that spins keeps a busy core from the very thread that it waits for; one that sleeps between two
# kernels may be woken on the core of the thread that wakes it.
WAITING = {"GOMP_SPINCOUNT": "100000", "KMP_BLOCKTIME": "1"}
POLICIES = ("OMP_WAIT_POLICY", *WAITING)


@once
def openmp() -> OpenMP | None:
    """The runtime that this process uses from now on; None if there is none, of which it warns once."""
    for path in candidates():
        with brief_waiting():
            found = load(path)
        if found is not None:
            return found
    warnings.warn(MISSING, RuntimeWarning, stacklevel=2)
    return None


def candidates() -> Iterator[str]:
    """The runtimes to try, by paths or names for the system's loader.

    First those that may run beside others in one process: how their threads wait can still be chosen. Then
    those that a package has loaded, those that packages will load, and at last the others of the system.
    """
    yield from system().first
    yield from loaded_libraries()
    yield from brought_libraries()
    yield from system().runtimes
    for folder in system().folders:
        yield from libraries(Path(folder))


@contextmanager
def brief_waiting() -> Generator[None]:
    """A context in which a runtime that starts has threads that sleep soon when they wait. Runtimes that have
    started, and child processes, are not affected.
    """
    own = {} if any(name in os.environ for name in POLICIES) else WAITING
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


def load(path: str) -> OpenMP | None:
    """The runtime in a file, or under a name that the system's loader knows."""
    try:
        library = ctypes.CDLL(path)
        library.omp_get_max_threads()  # now it reads the environment
    except (OSError, AttributeError):
        return None
    region, asked = parallel(library), [address(library, name) for name in FUNCTIONS[1:]]
    if region is None or None in asked:
        return None
    start, code = region
    return OpenMP(Path(path).name, (start, *(found or 0 for found in asked)), code)


def loaded_libraries() -> Iterator[str]:
    """The runtimes among the libraries that this process has loaded."""
    yield from (path for path in system().loaded_files() if is_runtime(path))


def brought_libraries() -> Iterator[str]:
    """The runtimes that packages put into the environment, or beside Python's modules."""
    roots = [Path(root) for root in dict.fromkeys([sys.prefix, *sys.path]) if root]
    for part in system().brought:
        for root in roots:
            yield from libraries(root / part)


def libraries(folder: Path) -> list[str]:
    """The runtimes in a folder."""
    return sorted(str(file) for file in folder.glob("*omp*") if is_runtime(file.name))


def is_runtime(path: str) -> bool:
    """Whether a library is an OpenMP runtime, by its name."""
    return re.fullmatch(system().library, re.split(r"[/\\]", path)[-1]) is not None
