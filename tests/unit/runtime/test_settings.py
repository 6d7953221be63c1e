"""Settings of the environment and of a file."""

from __future__ import annotations

import locale
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime.settings import NAMES, is_on


@pytest.fixture(autouse=True)
def without_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*NAMES, "config"):
        monkeypatch.delenv(f"OCANNL_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_defaults_are_empty():
    assert dict(oc.config) == dict.fromkeys(NAMES, "")
    assert repr(oc.config) == "<config: >"


def test_the_environment_is_above_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "ocannl.toml").write_text('threads = 2\nbackend = "cpu"\ntiming = true\nverify = false\n')
    monkeypatch.setenv("OCANNL_THREADS", "3")
    monkeypatch.setenv("OCANNL_BACKEND", "")
    assert repr(oc.config) == "<config: threads='3', timing='1', verify='0'>"
    assert oc.Context.cpu().threads == 3
    monkeypatch.delenv("OCANNL_THREADS")
    monkeypatch.delenv("OCANNL_BACKEND")
    assert oc.Context.auto().threads == 2


def test_a_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine.toml").write_text("threads = 1")
    monkeypatch.setenv("OCANNL_CONFIG", "mine.toml")
    assert oc.config["threads"] == "1"
    monkeypatch.setenv("OCANNL_CONFIG", "other.toml")
    with pytest.raises(oc.OcannlError, match=r"other\.toml: there is no such file"):
        oc.Context.cpu()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thread = 2", r"ocannl\.toml: there is no setting 'thread'; did you mean 'threads'\?"),
        ("colour = 2", "there is no setting 'colour'; settings are backend, target"),
        ("threads = [2]", r"threads is a string, a number or a truth value, found \[2\]"),
        ("threads", r"settings cannot be read from .*ocannl\.toml: "),
    ],
)
def test_errors_of_files(text: str, message: str, tmp_path: Path):
    (tmp_path / "ocannl.toml").write_text(text)
    with pytest.raises(oc.OcannlError, match=message):
        oc.Context.cpu()


def test_a_setting_that_there_is_not():
    with pytest.raises(oc.OcannlError, match="there is no setting 'caches'; did you mean 'cache'") as raised:
        oc.config["caches"]
    assert isinstance(raised.value, KeyError)
    assert "caches" not in oc.config
    assert oc.config.get("caches", "none") == "none"


@pytest.mark.parametrize("text", ["1", "true", "True", "yes", "on"])
def test_a_setting_is_on(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CHECK", text)
    assert is_on("check")


@pytest.mark.parametrize("text", ["", "0", "false", "No", "OFF"])
def test_a_setting_is_off(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "ocannl.toml").write_text("check = true")
    assert is_on("check")
    monkeypatch.setenv("OCANNL_CHECK", text)
    assert not is_on("check")


def test_a_setting_is_neither_on_nor_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CHECK", "maybe")
    with pytest.raises(oc.OcannlError, match=r"OCANNL_CHECK .* 1, true, yes, on, or .*; found 'maybe'"):
        oc.Context.cpu()


def test_the_working_folder_was_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As by another process, or for a daemon."""
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    x = oc.data(np.ones(3, np.float32), axes="o")
    assert oc.Context.cpu()[x * 2.0].tolist() == [2.0, 2.0, 2.0]
    monkeypatch.setenv("OCANNL_CONFIG", "mine.toml")
    with pytest.raises(oc.OcannlError, match=r"OCANNL_CONFIG=mine\.toml: there is no working folder"):
        oc.Context.cpu()


@pytest.fixture
def ascii_locale() -> Generator[None]:
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.usefixtures("ascii_locale")
def test_the_file_is_of_utf_8(tmp_path: Path):
    (tmp_path / "ocannl.toml").write_bytes('dump = "gewählt"'.encode())
    assert oc.config["dump"] == "gewählt"
