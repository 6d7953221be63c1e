"""Libraries of C that stand in for those of other systems."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(CC is None, reason="there is no C compiler")


def c_library(text: str, path: Path) -> str:
    """The path of a shared library of a text."""
    source = path.with_suffix(".c")
    source.write_text(text)
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    subprocess.run([str(CC), *warnings, "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return str(path)
