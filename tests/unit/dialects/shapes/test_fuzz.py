"""Fuzzing by coverage, for a short time; for a long one, run `tests/support/fuzz_spec_parser.py` itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.layering import SUPPORT


def test_the_spec_parser(tmp_path: Path):
    pytest.importorskip("atheris", reason="atheris is not installed (the extra `fuzz`)")
    command = [sys.executable, SUPPORT / "fuzz_spec_parser.py", "-runs=3000", "-seed=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
