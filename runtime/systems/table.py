"""The table of operating systems."""

from __future__ import annotations

import sys

from ocannl.runtime.systems import linux, macos, posix, windows
from ocannl.runtime.systems.system import System

LINUX = System(
    name="Linux",
    triple="unknown-linux-gnu",
    first=("libgomp.so.1",),
    runtimes=("libomp.so.5", "libomp.so", "libiomp5.so"),
    library=r"lib(gomp|omp|iomp5)\b.*\.so\b.*",
    brought=("lib", "torch/lib", "torch.libs", "scikit_learn.libs"),
    folders=(),
    linkers=("cc", "gcc", "clang"),
    link_options=("-shared", "-lm"),
    has_owners=True,
    opens_folders=True,
    loaded_files=linux.loaded_files,
    cores=linux.cores,
    caches=linux.caches,
    permits_tiles=linux.permits_tiles,
    symbols=posix.no_symbols,
    cache_folder=posix.cache_folder,
)
MACOS = System(
    name="macOS",
    triple="apple-macosx11.0.0",
    first=(),
    runtimes=("libomp.dylib", "libiomp5.dylib"),
    library=r"lib(omp|iomp5|gomp)\b.*\.dylib",
    brought=("torch/lib", "sklearn/.dylibs", "lib"),
    folders=("/opt/homebrew/opt/libomp/lib", "/usr/local/opt/libomp/lib"),
    linkers=("cc", "clang"),
    link_options=("-dynamiclib",),
    has_owners=True,
    opens_folders=True,
    loaded_files=macos.loaded_files,
    cores=macos.cores,
    caches=macos.caches,
    permits_tiles=posix.no_tiles,
    symbols=posix.no_symbols,
    cache_folder=macos.cache_folder,
)
WINDOWS = System(
    name="Windows",
    triple="pc-windows-msvc",
    first=("vcomp140.dll",),
    runtimes=("libiomp5md.dll", "libomp140.x86_64.dll", "libomp.dll"),
    library=r"(libiomp5md|libomp\w*(\.\w+)?|vcomp140)\.dll",
    brought=("Library/bin", "torch/lib", "sklearn/.libs", "scikit_learn.libs"),
    folders=(),
    linkers=("clang", "gcc"),
    link_options=("-shared",),
    has_owners=False,
    opens_folders=False,
    loaded_files=windows.loaded_files,
    cores=windows.cores,
    caches=windows.caches,
    permits_tiles=posix.no_tiles,
    symbols=windows.symbols,
    cache_folder=windows.cache_folder,
)
OTHER = System(
    name="POSIX",
    triple="unknown-unknown",
    first=("libgomp.so.1",),
    runtimes=("libomp.so", "libomp.so.0"),
    library=LINUX.library,
    brought=LINUX.brought,
    folders=(),
    linkers=("cc",),
    link_options=("-shared", "-lm"),
    has_owners=True,
    opens_folders=True,
    loaded_files=posix.nothing_loaded,
    cores=posix.cores,
    caches=posix.no_caches,
    permits_tiles=posix.no_tiles,
    symbols=posix.no_symbols,
    cache_folder=posix.cache_folder,
)
# By Python's names of them.
SYSTEMS = {"linux": LINUX, "darwin": MACOS, "win32": WINDOWS}


def system() -> System:
    """The operating system of this process."""
    return SYSTEMS.get(sys.platform, OTHER)
