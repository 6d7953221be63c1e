"""Objects that others froze stay frozen, and cost no operation its time."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import ocannl as oc
from ocannl.runtime import collector


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many there were whenever somebody asked."""
    found: list[int] = []
    count = gc.get_freeze_count

    def counted() -> int:
        found.append(count())
        return found[-1]

    monkeypatch.setattr(collector.gc, "get_freeze_count", counted)
    monkeypatch.setattr(collector._Load, "believed", 0)
    gc.freeze()
    return found


def test_frozen_objects_are_counted_seldom(frozen: list[int]):
    x = oc.param("x", output=[2])
    for _ in range(300):
        x = x + 1.0
    assert oc.forward(x).ir()
    assert len(frozen) == 1
    assert gc.get_freeze_count() > frozen[0] / 2 > 0


def test_it_is_asked_again(frozen: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collector, "QUESTIONS", 2)
    asked: list[int] = []
    for _ in range(5):
        assert collector._others_froze()
        asked.append(len(frozen))
    assert asked == [1, 1, 1, 2, 2]


COUNTED = """
import gc
runs = []
gc.callbacks.append(lambda phase, info: runs.append(phase))
import ocannl
print(len(runs), gc.isenabled())
"""


@pytest.mark.exhaustive
def test_the_collector_rests_while_modules_are_imported():
    run = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    runs, is_enabled = run.stdout.split()
    assert int(runs) < 40  # some 500 where it looks at what modules make
    assert is_enabled == "True"
