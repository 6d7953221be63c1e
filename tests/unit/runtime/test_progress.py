"""The line that says on a terminal how far a long compilation is."""

import io
import sys

import pytest

import ocannl as oc
from ocannl.runtime import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    """The text that the compilation of a small routine writes."""
    monkeypatch.setenv("OCANNL_CACHE", "off")
    monkeypatch.setattr(sys, "stderr", stream)
    oc.Context.cpu().compile(oc.constant(1.0) + 1.0, name="small")
    return stream.getvalue()


def test_a_long_compilation_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    text = shown(Terminal(), monkeypatch)
    assert "compiling small for 0 s, past infer-shapes" in text
    assert text.count(progress.ERASE_LINE) > 10
    assert text.endswith(progress.ERASE_LINE)


def test_a_short_one_says_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", 1e9)
    assert shown(Terminal(), monkeypatch) == ""


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    assert shown(io.StringIO(), monkeypatch) == ""


def test_the_line_goes_when_compilation_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    stream = Terminal()
    monkeypatch.setenv("OCANNL_CACHE", "off")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("ocannl.runtime.compile.Interface.of", None)
    with pytest.raises(TypeError):
        oc.Context.cpu().compile(oc.constant(1.0) + 1.0)
    assert stream.getvalue().endswith(progress.ERASE_LINE)
