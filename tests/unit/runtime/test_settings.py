"""Settings of the environment and of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocannl as oc
from ocannl.runtime.settings import NAMES


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
    assert repr(oc.config) == "<config: backend='cpu', threads='3', timing='1', verify='0'>"
    assert oc.Context.auto().threads == 3
    monkeypatch.delenv("OCANNL_THREADS")
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
    with pytest.raises(oc.OcannlError, match="did you mean 'cache'"):
        oc.config["caches"]
