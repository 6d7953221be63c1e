"""Compiled code reads and writes no page beside those of its memory."""

import mmap
import subprocess
import sys

import pytest
from support.guarded_memory import SIDES
from support.layering import TESTS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "support.guarded_memory", *arguments]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)


pytestmark = pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="pages are closed by mprotect")


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", SIDES)
def test_kernels_of_odd_sizes(side: str):
    found = run(side, "3" if side == "before" else "13")
    assert found.returncode == 0, found.stderr
    assert "nothing was touched around" in found.stdout


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", SIDES)
def test_what_is_beside_the_memory_cannot_be_read(side: str):
    assert run(side).returncode < 0
