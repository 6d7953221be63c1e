"""`ocannl-opt` runs in this process, on a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.opt_tool import Done, Opt

from ocannl.tools.opt import main


@pytest.fixture
def opt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Opt:
    def run(text: str | bytes, *args: str) -> Done:
        file = tmp_path / "input.mlir"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main([str(file), *args])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run
