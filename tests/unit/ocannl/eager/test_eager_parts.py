"""Eager mode: parts at positions that change each time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn


class TestParts:
    def test_batches_that_are_slices(self, compiled: list[str]):
        """The first two are part of the program, all others one program."""
        rng = np.random.default_rng(0)
        x, y = oc.data(rng.normal(size=(60, 3))), oc.data(rng.integers(0, 2, 60), axes="b")
        model = nn.linear(out_dim=2)
        for step in range(14):
            at = 4 * step
            loss = nn.cross_entropy(model(x[at : at + 4]), y[at : at + 4])
            loss.backward()
            for p in model.params.values():
                p -= 0.1 * p.grad
                p.grad.zero()
            float(loss)
            if step == 4:
                compiled.clear()
        assert compiled == []

    PARTS = (
        lambda k: (k,),
        lambda k: (-1 - k,),
        lambda k: (slice(k, k + 2),),
        lambda k: (slice(k + 2, k, -1),),
        lambda k: (slice(k, None, 2),),
        lambda k: (slice(0, k),),
        lambda k: (..., k % 4),
        lambda k: (k, slice(None), k % 4),
        lambda k: (slice(k, k + 2), ..., slice(k % 3, k % 3 + 2)),
        lambda k: (slice(k, k + 2), None, k % 3),
        lambda k: (None, k, ..., None),
        lambda k: (k, k % 3, k % 4),
    )

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("part", PARTS)
    def test_parts_that_move(self, part: Any, compiled: list[str]):
        """Values and gradients are those of NumPy."""
        array = np.random.default_rng(0).normal(size=(9, 3, 4))
        x, w = oc.data(array, axes="boo"), oc.param("w", array, batch=9, output=[3, 4])
        for k in [*range(6), 1, 4]:
            key = part(k)
            np.testing.assert_array_equal(x[key].numpy(), array[key])
            (w[key] * x[key]).sum().backward()
            expected = np.zeros_like(array)
            expected[key] = array[key]
            np.testing.assert_array_equal(w.grad.numpy(), expected)
            w.grad.zero()
        steady = len(compiled)
        for k in (5, 1, 3):
            if part(0) != (slice(0, 0),) or k == 5:  # else each has another size
                x[part(k)].numpy()
        assert len(compiled) == steady

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("part", PARTS)
    def test_parts_that_move_are_written(self, part: Any, compiled: list[str]):
        expected = np.random.default_rng(0).normal(size=(9, 3, 4))
        m = oc.node("m", batch=9, output=[3, 4], init=0.0)
        m[...] = oc.data(expected, axes="boo")
        for k in [*range(6), 1, 4]:
            key = part(k)
            if None in key:
                continue
            m[key] = float(k)
            expected[key] = k
            m[key] += 2.0
            expected[key] += 2
            np.testing.assert_array_equal(m.numpy(), expected)
        compiled.clear()
        if all(isinstance(item, int) for item in part(0)):
            for k in (5, 3):
                m[part(k)] = float(k)
            assert compiled == []

    def test_positions_outside_are_told(self):
        x = oc.data(np.arange(12.0).reshape(4, 3))
        for k in range(4):
            x[k].numpy()
        with pytest.raises(oc.ArgumentError, match="position 4 is outside of axis 0"):
            x[4]
        with pytest.raises(oc.ArgumentError, match="position 3 is outside of axis 1"):
            x[3, 3]
