"""The parts of the measure of mutation: intervals, and functions that are changed in place."""

from __future__ import annotations

import pytest
from support.mutation import annotated_lines, codes, is_inside, summary, wilson

SOURCE = """
def outer(a: int | None, b=2) -> int | str:
    def inner():
        return a
    return inner() + b
value: int | None = 1 | 2
"""


@pytest.mark.parametrize(
    ("killed", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (480, 600, 0.7661, 0.8301)],
)
def test_the_interval_is_that_of_wilson(killed: int, of: int, low: float, high: float):
    assert wilson(killed, of) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_annotations_are_no_sites():
    lines = SOURCE.splitlines()
    bars = {(k, at) for k, line in enumerate(lines, 1) for at, letter in enumerate(line) if letter == "|"}
    assert bars - annotated_lines(SOURCE) == {(6, lines[5].rindex("|"))}


def test_code_of_functions():
    found = codes(compile(SOURCE, "file", "exec"))
    assert list(found) == [("<module>", 1), ("outer", 2), ("outer.<locals>.inner", 3)]
    _, outer, inner = found.values()
    assert is_inside(inner, outer)
    assert not is_inside(outer, inner)


def test_the_summary_is_by_folder():
    results = {
        "passes/loops/a.py:1 x": "killed",
        "passes/loops/b.py:2 x": "survives",
        "passes/texpr/c.py:3 x": "killed",
    }
    rows = {line.split()[0]: line.split()[1:4] for line in summary(results).splitlines()}
    assert rows == {
        "passes/loops": ["1", "of", "2"],
        "passes/texpr": ["1", "of", "1"],
        "all": ["2", "of", "3"],
    }
