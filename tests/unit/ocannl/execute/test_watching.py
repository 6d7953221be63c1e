"""Values that programs show after their runs."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import ocannl as oc


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_values_are_those_at_the_place_in_the_code(capsys: pytest.CaptureFixture[str]):
    ctx, x = oc.Context.cpu(1), oc.data(np.array([1.0, 2.0]), label="x")
    m = oc.node("m", output=2, init=0.0)
    with oc.code("twice") as code:
        m += x
        oc.print_values("m is", m)
        m += x
    step = ctx.compile(code)
    step()
    step()
    assert shown(capsys) == ["m is [1. 2.]", "m is [3. 6.]"]
    np.testing.assert_array_equal(ctx[m], [4, 8])
    step.run_loop(epochs=3)
    assert shown(capsys) == ["m is [ 9. 18.]"]
    step.run_loop(epochs=0)
    assert shown(capsys) == []


def test_in_functions_and_in_eager_mode(capsys: pytest.CaptureFixture[str]):
    @oc.function(ctx=oc.Context.cpu(1))
    def more(x: Any) -> Any:
        y = x * 2
        oc.print_values("y", y)
        return y + 1

    np.testing.assert_array_equal(more(np.ones(3, np.float32)), [3, 3, 3])
    np.testing.assert_array_equal(more(np.zeros(3, np.float32)), [1, 1, 1])
    with oc.eager():
        oc.print_values("now", oc.tensor([1, 2]) + 1)
    assert shown(capsys) == ["y [2. 2. 2.]", "y [0. 0. 0.]", "now [2 3]"]


def test_code_stops_in_the_debugger():
    x = oc.data(np.array([1.0, 2.0]), label="x")
    step = oc.Context.cpu(1).compile(oc.breakpoint(x * 2))
    seen: list[Any] = []

    def debugger() -> None:
        frame = sys._getframe(1)
        while "value" not in frame.f_locals:
            assert frame.f_back is not None
            frame = frame.f_back
        seen.append(frame.f_locals["value"])

    with patch("builtins.breakpoint", debugger):
        step()
    np.testing.assert_array_equal(seen, [[2, 4]])
    wrong: Any = 3
    with pytest.raises(oc.ArgumentError, match="after a text"):
        oc.print_values(wrong, x)


def test_values_of_one_iteration_are_not_shown():
    """In place of a statement that nothing runs."""

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        oc.print_values("h", 2 * h)
        return h + x, h

    xs = oc.data(np.ones((3, 2)), axes="bo")
    with pytest.raises(
        oc.ArgumentError, match=r"test_watching\.py:\d+: a value inside of the cell of a scan"
    ):
        oc.scan(cell, oc.data(np.zeros(2)), xs)

    def outer(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        _, last = oc.scan(lambda g, _: (g + x, None), h, None, length=2)
        oc.print_values("last", last)
        return last, h

    with pytest.raises(oc.ArgumentError, match="inside of the cell"):
        oc.scan(outer, oc.data(np.zeros(2)), xs)
    ys, _ = oc.scan(lambda h, x: (h + x, h), oc.data(np.zeros(2)), xs)
    oc.print_values("ys", ys)
