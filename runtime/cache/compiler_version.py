"""The version of the compiler that this process has loaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from inspect import getfile
from pathlib import Path

import llvmlite
import xdsl

# The folders whose code decides what a program becomes.
LAYERS = ("dialects", "passes", "lowering", "runtime")


def digest(files: Iterable[str]) -> str:
    """The SHA-256 of names and contents of files, in the order of their names."""
    found = hashlib.sha256(llvmlite.__version__.encode())
    for file in sorted(files):
        with open(file, "rb", buffering=0) as opened:
            content = opened.read()
        folder, name = os.path.split(file)
        found.update(f"{os.path.basename(folder)}/{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def source_files() -> Iterator[str]:
    """The modules of the folders below the Python API, and what tells the version of xDSL: asking for it
    imports much.
    """
    for name in LAYERS:
        package = find_spec(f"ocannl.{name}")
        assert package is not None
        for folder in package.submodule_search_locations or ():
            for inside, _, names in os.walk(folder):
                yield from (os.path.join(inside, name) for name in names if name.endswith(".py"))
    own = Path(getfile(xdsl))
    yield str(own)
    yield from map(str, own.parents[1].glob("xdsl-*.dist-info/METADATA"))


# At import: what files become later is not what this process runs.
VERSION = digest(source_files())
