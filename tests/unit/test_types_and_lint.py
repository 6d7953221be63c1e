"""The sources are formatted, linted and typed."""

import importlib.util
import subprocess
import sys

import pytest
from support.layering import ROOT
from support.typecheck import CHECKED_AS_THEY_ARE, typecheck


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(tool) is None, reason=f"{tool} is not installed")


@needs("ruff")
@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(check: list[str]):
    command = [sys.executable, "-m", "ruff", *check, "--no-cache", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs("pyright")
@pytest.mark.longest
@pytest.mark.parametrize(
    "folder", ["ocannl", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in CHECKED_AS_THEY_ARE)]
)
def test_pyright(folder: str):
    """Other folders have most lines, and what is wrong with their types fails as they run."""
    status, report = typecheck(folder)
    assert status == 0, report
