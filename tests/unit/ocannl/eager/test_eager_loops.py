"""Eager mode: loops that run again compile nothing, and mean what they mean in compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of

import ocannl as oc
from ocannl import nn


def zeros() -> oc.Tensor:
    return oc.data(np.zeros(3))


def in_state(x: oc.Tensor) -> oc.Tensor:
    return oc.scan(lambda c, a: (0.5 * c + a, c * a), zeros(), x)[0]


def noisy(x: oc.Tensor) -> oc.Tensor:
    """Random numbers of the cell differ in each iteration; those from outside are not."""
    outside = oc.uniform(0, key="outside", batch=(), input=(), output=3)

    def cell(c: oc.Tensor, a: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        return c + oc.uniform(0, key="u", batch=(), input=(), output=3, dtype=float) * a, c + outside

    return oc.scan(cell, zeros(), x)[0]


def of_one_tensor(x: oc.Tensor) -> oc.Tensor:
    """Two carries that begin with the same tensor, and two loops over the same."""
    begin = zeros()
    both = oc.scan(lambda c, a: ((c[0] + a, 2 * c[1] + a), c[0] - c[1]), (begin, begin), x)[0]
    return both + oc.scan(lambda c, a: (c - a, c), begin, x, reverse=True)[0]


def nested(x: oc.Tensor) -> oc.Tensor:
    def cell(c: oc.Tensor, a: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        return oc.scan(lambda d, b: (d + b * a, d), c, x)[1], c

    return oc.scan(cell, zeros(), x)[0]


def from_numbers(x: oc.Tensor) -> oc.Tensor:
    """Carries that begin with a number have the shapes that their cells tell."""
    narrow = oc.scan(lambda c, a: (c + a[:2], c), 0.0, x)[0]
    return narrow.sum(-1)[:, None] * oc.scan(lambda c, a: (c + a, c), 0.0, x)[0]


LOOPS: list[Callable[[oc.Tensor], oc.Tensor]] = [
    in_state,
    noisy,
    of_one_tensor,
    nested,
    from_numbers,
    lambda x: oc.scan(lambda c, a: (0.9 * c + a, c), zeros(), x, checkpoint_every=2)[0],
    lambda x: oc.while_loop(lambda c: c.sum() < 50, lambda c: 2 * c + 1, oc.relu(x), most=20),
    lambda x: oc.cond(x.sum() > 0, lambda a: 2 * a, lambda a: a - 1, x),
    lambda x: oc.cond(x.sum() < 0, lambda a: 2 * a, lambda a: a - 1, x),
    lambda x: nn.ctc(nn.log_softmax()(x), oc.data([1, 2], axes="b")),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_again(loop: Any, compiled: list[str], context: oc.Context):
    (array,) = arrays_of((4, 3))
    with oc.eager(False):
        wanted = oc.function(lambda x: loop(x), ctx=context)(array)
    for number in range(5):
        if number == 3:
            compiled.clear()
        np.testing.assert_allclose(loop(oc.data(array)), wanted, rtol=1e-12)
    assert compiled == []


def test_gradients_again(compiled: list[str]):
    (array,) = arrays_of((4, 3))
    w, found = oc.param("w", array, batch=4, output=3), list[Array]()
    for number in range(4):
        if number == 2:
            compiled.clear()
        noisy(w).sum().backward()
        found.append(w.grad.numpy())
        w.grad.zero()
    assert compiled == []
    for gradient in found[1:]:
        np.testing.assert_array_equal(gradient, found[0])


def test_random_numbers_of_inferred_rows(compiled: list[str]):
    """Each draw is another operation; the expressions around are equal once their shapes are known."""
    wide, narrow = oc.data(np.zeros((4, 3), np.float32)), oc.data(np.zeros(3, np.float32))

    def drawn(x: oc.Tensor, counter: int) -> Array:
        return (x + oc.uniform(counter, key="noise")).numpy()

    given = oc.function(lambda at: oc.uniform(at, key="noise", batch=4, input=(), output=3))
    for number in range(5):
        if number == 2:
            compiled.clear()
        np.testing.assert_array_equal(drawn(wide, number), given(number))
        assert drawn(narrow, number).shape == (3,)
        assert (drawn(wide, number) != drawn(wide, number + 1)).all()
        assert (oc.uniform(0, output=2).numpy() != oc.uniform(0, output=2).numpy()).all()
    assert compiled == []


def test_numbers_of_a_cell(compiled: list[str]):
    (array,) = arrays_of((4, 3))
    for k in range(7):
        if k == 4:
            compiled.clear()
        value = oc.scan(lambda c, a, k=k: (0.1 * k * c + a, c), zeros(), oc.data(array))[1]
        wanted = np.zeros(3)
        for row in array:
            wanted = 0.1 * k * wanted + row
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
    assert compiled == []


def test_blocks_over_the_same(compiled: list[str]):
    """States of other sizes begin with the same number, beside the same sequence."""
    x = oc.data(np.ones((2, 4, 3), np.float32))
    layers = [nn.lstm(4), nn.lstm(5), nn.gru(6)]
    for number in range(4):
        if number == 2:
            compiled.clear()
        assert [layer(x).numpy().shape[-1] for layer in layers] == [4, 5, 6]
    assert compiled == []


def test_ids_of_a_cell_are_checked_again():
    table = oc.data(np.arange(6.0).reshape(3, 2))

    def total(ids: oc.Tensor) -> oc.Tensor:
        return oc.scan(lambda c, i: (c + table[i], c), oc.data(np.zeros(2)), ids)[1]

    for ids in ([0, 1], [2, 2], [1, 0]):
        np.testing.assert_array_equal(total(oc.data(ids, axes="b")), table.numpy()[ids].sum(0))
    with pytest.raises(oc.OcannlError, match="the id 3"):
        total(oc.data([0, 3], axes="b")).numpy()
