"""Parameters that a loss has derivatives for: however it reads them, an optimizer trains them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

START = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -1.0]])

READS: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
    "pointwise": lambda w: w * 2,
    "a product": lambda w: w @ w.T,
    "a part": lambda w: w[0:1],
    "a position": lambda w: w[1],
    "a position from the end": lambda w: (w * 2)[..., -1],
    "reversed": lambda w: w[::-1],
    "ids": lambda w: w[[0, 1]],
    "computed positions": lambda w: w[oc.argmax(w.sum(1))],
    "a static index": lambda w: oc.rearrange(w, "a b -> a b")[oc.index("i", 2)],
    "flip": lambda w: oc.flip(w, 0),
    "roll": lambda w: oc.roll(w, 1, 0),
    "sort": lambda w: oc.sort(w, 1),
    "cumsum": lambda w: oc.cumsum(w, 1),
    "cumprod": lambda w: oc.cumprod(w, 1),
    "cummax": lambda w: oc.cummax(w, 1),
    "topk": lambda w: oc.topk(w, 2)[0],
    "concat": lambda w: oc.concat("b->a; b->c => b->a^c", w, w * 2),
    "stack": lambda w: oc.stack([w, w * 2], axis="output"),
    "reshape": lambda w: oc.rearrange(w, "a b -> (a b)"),
    "take_along_axis": lambda w: oc.take_along_axis(w, oc.argsort(w, 1), 1),
    "scan": lambda w: oc.scan(lambda c, x: (c + x * w[0, 1], c), 1.0, oc.data(START[0], axes="b"))[0],
    "associative_scan": lambda w: oc.associative_scan(lambda a, b: a + b, w, axis=1),
    "cond": lambda w: oc.cond(w.sum() > 0, lambda: w * 2, lambda: w * 3),
    "checkpoint": lambda w: oc.checkpoint(oc.exp)(w),
    "a gradient": lambda w: oc.grad((w**3).sum(), w),
    "tril": oc.tril,
    "cast": lambda w: oc.cast(w, oc.float32),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("read", READS)
def test_an_optimizer_moves_what_is_read(read: str):
    w = oc.param("w", START)
    loss = (READS[read](w) ** 2).sum()
    assert list(oc.params(loss, trained=True)) == ["w"]
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.sgd(0.01).step(loss))
    ctx.init_params(loss)
    step()
    assert np.any(ctx[w] != START)


def test_what_is_stopped_is_not_trained():
    w = oc.param("w", START)
    assert not oc.params(oc.stop_gradient(w)[0:1].sum() + oc.sign(oc.stop_gradient(w[1])).sum(), trained=True)


def test_a_part_of_a_table_is_trained_beside_others():
    """Positions of a language model: only the first are read."""
    table, w = oc.param("table", START), oc.param("w", START[:1])
    loss = ((table[:1] + w) ** 2).sum()
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.sgd(0.1).step(loss))
    ctx.init_params(loss)
    step()
    np.testing.assert_allclose(ctx[table][0], START[0] - 0.1 * 4 * START[0])
    np.testing.assert_array_equal(ctx[table][1], START[1])
