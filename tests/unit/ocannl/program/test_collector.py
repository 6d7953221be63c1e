"""While a program is built, Python's garbage collector rests: operations live as long as their program."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import ocannl as oc


@oc.block
def watching(p: Any, x: oc.Tensor, seen: list[bool]) -> oc.Tensor:
    seen.append(gc.isenabled())
    return p.w @ x


@oc.block
def failing(p: Any, x: oc.Tensor) -> oc.Tensor:
    raise ZeroDivisionError


def test_the_collector_rests_in_blocks_and_code():
    seen: list[bool] = []
    x = oc.param("x", output=[2])
    watching()(x, seen)
    with oc.code("update") as update:
        seen.append(gc.isenabled())
        x += 1
    assert seen == [False, False]
    assert len(update.statements) == 2
    assert gc.isenabled()


def test_the_collector_goes_on_after_an_error():
    with pytest.raises(ZeroDivisionError):
        failing()(oc.param("x", output=[2]))
    with pytest.raises(ZeroDivisionError), oc.code("update"):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        watching()(oc.param("x", output=[2]), [])
        assert not gc.isenabled()
    finally:
        gc.enable()
