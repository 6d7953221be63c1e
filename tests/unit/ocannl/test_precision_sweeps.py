"""How often infer-precisions looks at an operation."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Operation

import ocannl as oc
from ocannl.passes.texpr.infer_precisions.infer_precisions import Precisions
from ocannl.passes.texpr.infer_precisions.sweeps import Sweeps


def test_a_sweep_comes_to_what_is_added_before_it():
    sweeps = Sweeps([3, 1])
    found: list[int] = []
    for place in sweeps.sweep():
        found.append(place)
        if place == 1:
            for added in (2, 3, 1):
                sweeps.add(added)
    assert found == [1, 2, 3]
    assert [*sweeps.sweep()] == [1]


def test_backwards_the_last_place_is_first():
    sweeps = Sweeps([1, 3], backwards=True)
    found: list[int] = []
    for place in sweeps.sweep():
        found.append(place)
        if place == 3:
            sweeps.add(2)
            sweeps.add(5)
    assert found == [3, 2, 1]
    assert [*sweeps.sweep()] == [5]


def chain(length: int) -> oc.Code:
    """Statements of which each sets memory of its own to a function of that of the one before."""
    code, last = oc.Code(), oc.data(np.ones((5, 8), np.float32), label="x")
    for _ in range(length):
        memory = oc.node("m", batch=[5], output=[8])
        code, last = code + oc.set(memory, oc.sin(last)), memory
    return code


def test_statements_are_looked_at_as_often_however_many_come_before(monkeypatch: pytest.MonkeyPatch):
    looked = 0
    up = Precisions.up

    def counted(self: Precisions, op: Operation) -> None:
        nonlocal looked
        looked += 1
        up(self, op)

    monkeypatch.setattr(Precisions, "up", counted)
    counts: list[int] = []
    for length in (10, 40):
        looked = 0
        chain(length).ir("infer-precisions")
        counts.append(looked)
    assert 0 < counts[1] < 5 * counts[0]
