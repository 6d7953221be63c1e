"""Memory modes that the program asks for: the text says them, and values do not depend on them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ocannl as oc

X = np.random.default_rng(0).normal(size=(6, 5))


def mode_of(label: str, t: oc.Tensor) -> str:
    found = re.search(rf'assign.node "{label}" (\w+)', t.ir("loops"))
    assert found is not None
    return found[1]


def test_a_value_passes_through_memory():
    x = oc.data(X)
    e = oc.exp(x).named("e")
    y = oc.tanh(e * 2)
    assert mode_of("e", y) == "virtual"
    assert oc.materialize(e) == e
    assert mode_of("e", y) == "on_device"
    assert 'exp(%data) logic "." materialized' in y.ir()
    np.testing.assert_allclose(y.numpy(), np.tanh(np.exp(X) * 2), rtol=1e-12)
    np.testing.assert_allclose(oc.grad(oc.sum(e * 3), x).numpy(), 3 * np.exp(X), rtol=1e-12)
    step = oc.Context.cpu(1).compile(oc.forward(y))
    step()
    assert "it is to be in memory" in str(step.memory())


def test_a_value_is_computed_where_it_is_used():
    """A reduction is computed again at every point, which the compiler would not do."""
    x = oc.data(X)
    square = oc.sum(x * x, "output").named("square")
    y = oc.einsum("b | o; b | => b | o", x, square) + 1
    assert mode_of("square", y) == "local"
    assert oc.virtual(square) == square
    assert mode_of("square", y) == "virtual"
    np.testing.assert_allclose(y.numpy(), X * (X * X).sum(1, keepdims=True) + 1, rtol=1e-12)


def test_what_cannot_be_virtual():
    x = oc.data(X)
    inner = oc.virtual(oc.sum(x * x, "output")).named("inner")
    with pytest.raises(oc.OcannlError, match=r"test_memory_modes.py:\d+: `inner` cannot be virtual"):
        oc.einsum("b | ; b | o => ", inner, x).numpy()
    with pytest.raises(oc.ArgumentError, match="`data` is memory"):
        oc.virtual(x)
    assert oc.materialize(x) == x


def test_a_contrary_mode_is_refused():
    e = oc.exp(oc.data(X)).named("e")
    assert oc.virtual(oc.virtual(e)) == e
    with pytest.raises(
        oc.ArgumentError, match=r"`e` is virtual by an earlier call, which materialized would"
    ):
        oc.materialize(e)
    assert mode_of("e", oc.tanh(e * 2)) == "virtual"


def test_what_is_no_operation_gets_a_copy():
    """A slice, a range and numbers are given as tensors of the same value."""
    part = oc.materialize(oc.data(X)[1:3])
    np.testing.assert_array_equal((part * 2).numpy(), X[1:3] * 2)
    np.testing.assert_array_equal((oc.materialize(oc.range(3)) * 2).numpy(), [0, 2, 4])
