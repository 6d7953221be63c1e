"""The OpenMP runtime of this process: the system's, else one that a package brought."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ocannl.runtime.locks import once

MAPPED_FILES = Path("/proc/self/maps")
LIBRARY = re.compile(r"/lib(gomp|omp|iomp5)\b[^/]*\.(so|dylib)[^/]*$")
NAMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", "libomp.dylib")
FOLDERS = ("/opt/homebrew/opt/libomp/lib", "/usr/local/opt/libomp/lib")


# `void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags)` is libgomp's;
# LLVM's and Intel's runtimes have it for code that GCC compiled.
FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


@dataclass(frozen=True)
class OpenMP:
    """A runtime: the name of its file, and the addresses of its `FUNCTIONS`."""

    name: str
    functions: tuple[int, ...]


# How long threads wait awake, unless the user says it: in turns of libgomp, in milliseconds of LLVM.
# A thread that spins keeps a busy core from the very thread that it waits for; one that sleeps between two
# kernels may be woken on the core of the thread that wakes it.
WAITING = {"GOMP_SPINCOUNT": "100000", "KMP_BLOCKTIME": "1"}
POLICIES = ("OMP_WAIT_POLICY", *WAITING)


@once
def openmp() -> OpenMP | None:
    """The runtime that this process uses from now on; None if there is none.

    The system's comes before one that a package has loaded: that one has long decided how its threads wait.
    """
    for path in (*NAMES, *loaded_libraries(MAPPED_FILES), *installed_libraries()):
        with brief_waiting():
            found = load(path)
        if found is not None:
            return found
    return None


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
        functions = [ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in FUNCTIONS]
    except (OSError, AttributeError):
        return None
    return OpenMP(Path(path).name, tuple(functions))


def loaded_libraries(maps: Path) -> Iterator[str]:
    """The OpenMP libraries among the files that a Linux process has mapped."""
    try:
        lines = maps.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    paths = (line[line.find("/") :] for line in lines if "/" in line)
    yield from dict.fromkeys(path for path in paths if LIBRARY.search(path))


def installed_libraries() -> Iterator[str]:
    """The runtimes of packages: Intel's in the environment's `lib`, PyTorch's and Homebrew's."""
    folders = [Path(sys.prefix, "lib"), *map(Path, FOLDERS)]
    torch = find_spec("torch")
    if torch is not None and torch.origin is not None:
        folders.append(Path(torch.origin).parent / "lib")
    for folder in folders:
        yield from sorted(str(file) for file in folder.glob("lib*omp*") if LIBRARY.search(str(file)))
