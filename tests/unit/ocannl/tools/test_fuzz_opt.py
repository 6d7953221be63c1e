"""`ocannl-opt` on texts that are FileCheck tests with changes: errors in words, no traceback, no hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import fuzz_opt
from support.fuzz_opt import failure, fuzz


def test_some_texts(tmp_path: Path):
    assert not fuzz(12, 0, tmp_path)


@pytest.mark.exhaustive
def test_many_texts(tmp_path: Path):
    assert not fuzz(100_000, 1, tmp_path)


def test_tracebacks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(arguments: list[str]) -> int:
        raise ZeroDivisionError("of " + arguments[1])

    monkeypatch.setattr(fuzz_opt, "main", fails)
    assert failure(["file", "-p"]) is not None
    found = fuzz(3, 0, tmp_path)
    assert list(found.values()) == [3]
    assert "ZeroDivisionError at" in next(iter(found))
    assert len(list(tmp_path.glob("1.mlir"))) == 1


def test_what_the_tool_tells_is_no_failure(tmp_path: Path):
    file = tmp_path / "wrong.mlir"
    file.write_text("loops.func @f {")
    assert failure([str(file)]) is None
