"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl.execute.files.replace_file import replacing
from ocannl.runtime.systems.table import WINDOWS


def write(path: Path, text: str) -> None:
    with replacing(path) as aside:
        (aside.parent / "of a library").write_text("half")
        aside.write_text(text)


def test_only_the_file_is_left(tmp_path: Path):
    for text in ("one", "two"):
        write(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_text() == text
        assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_what_is_not_written_to_its_end_changes_nothing(tmp_path: Path):
    write(tmp_path / "a.txt", "one")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt") as aside:
        (aside.parent / "of a library").write_text("half")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["one"]


def test_what_a_killed_process_left_is_no_hindrance(tmp_path: Path):
    left = tmp_path / ".a.txt.partial"
    left.mkdir()
    (left / "a.txt").write_text("half")
    write(tmp_path / "a.txt", "one")
    left.write_text("half")
    write(tmp_path / "a.txt", "two")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["two"]


def test_windows_waits_for_files_that_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It opens no folders, and waits for nothing that was opened to be read."""
    opened: list[tuple[bool, int]] = []
    own = os.open

    def record(path: Path, flags: int, *mode: int, **of: int) -> int:
        if not of:  # else a folder is removed
            opened.append((Path(path).is_dir(), flags & os.O_ACCMODE))
        return own(path, flags, *mode, **of)

    monkeypatch.setattr("ocannl.execute.files.replace_file.system", lambda: WINDOWS)
    monkeypatch.setattr(os, "open", record)
    with replacing(tmp_path / "a.txt") as aside, aside.open("w") as file:
        file.write("one")
    assert opened == [(False, os.O_RDWR)]
    assert (tmp_path / "a.txt").read_text() == "one"


@pytest.mark.skipif(os.name == "nt", reason="files have no permissions of a umask here")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_permissions_are_those_of_a_new_file(mask: int, suffix: str, tmp_path: Path):
    x, ctx = oc.data(np.arange(3.0), label="x"), oc.Context.cpu(threads=1)
    ctx.init_params(x)
    before = os.umask(mask)
    try:
        ctx.save(tmp_path / f"a.{suffix}", x)
    finally:
        os.umask(before)
    assert (tmp_path / f"a.{suffix}").stat().st_mode & 0o777 == 0o666 & ~mask
