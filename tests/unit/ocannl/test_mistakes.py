"""Programs with mistakes by chance are right, or told of in words with the user's line."""

from __future__ import annotations

import pytest
from support.fuzz_mistakes import PROGRAMS, Failure, program, run, run_cases


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_without_mistakes_are_right(text: str, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("program")
    assert run(text.replace("PATH", repr(str(folder / "state")))) is None


def test_some_mistakes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("support.fuzz_mistakes.bounded", lambda: None)
    run_cases([number for number in range(20) if "PATH" not in program(number)])


@pytest.mark.exhaustive
def test_many_mistakes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory):
    monkeypatch.setattr("support.fuzz_mistakes.bounded", lambda: None)
    monkeypatch.chdir(tmp_path_factory.mktemp("programs"))
    run_cases(range(10_000))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = [1][2]", None),
        ("oc.data([1.0]).foo", None),
        ("oc.einsum('a=>', 3.0, 4.0, 5.0, 6.0)", None),
        ("oc.index('i', Broken())", "ZeroDivisionError at"),
    ],
)
def test_what_is_told(text: str, told: str | None):
    """An error that the program raises itself is Python's affair, one from inside of ocannl is not."""
    own = "class Broken:\n    __index__ = __bool__ = __hash__ = __eq__ = divmod_of_zero\n"
    text = f"import functools\ndivmod_of_zero = functools.partial(divmod, 1, 0)\n{own}{text}"
    found = run(text)
    assert found is None if told is None else found is not None and told in found


def test_a_failure_has_its_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("support.fuzz_mistakes.bounded", lambda: None)
    monkeypatch.setattr("support.fuzz_mistakes.run", lambda text: "KeyError at a place")
    with pytest.raises(Failure, match=r"KeyError at a place\n"):
        run_cases([1])
