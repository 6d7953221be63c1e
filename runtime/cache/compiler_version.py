"""The version of the compiler that this process has loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.util import find_spec
from inspect import getfile
from pathlib import Path

import llvmlite
import xdsl

# The folders whose code decides what a program becomes.
LAYERS = ("dialects", "passes", "lowering", "runtime")


def digest(files: Iterator[Path]) -> str:
    """The SHA-256 of names and contents of files, in the order of their names."""
    found = hashlib.sha256(llvmlite.__version__.encode())
    for file in sorted(files):
        content = file.read_bytes()
        found.update(f"{file.parent.name}/{file.name} {len(content)} ".encode() + content)
    return found.hexdigest()


def source_files() -> Iterator[Path]:
    """The modules of the folders below the Python API, and what tells the version of xDSL: asking for it
    imports much.
    """
    for name in LAYERS:
        package = find_spec(f"ocannl.{name}")
        assert package is not None
        for folder in package.submodule_search_locations or ():
            yield from Path(folder).rglob("*.py")
    own = Path(getfile(xdsl))
    yield own
    yield from own.parents[1].glob("xdsl-*.dist-info/METADATA")


# At import: what files become later is not what this process runs.
VERSION = digest(source_files())
