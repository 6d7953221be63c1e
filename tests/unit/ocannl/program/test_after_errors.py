"""An error leaves no trace: tensors, blocks of code, contexts and routines are usable as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.messages import PLAIN, data, message_of

import ocannl as oc
from ocannl import train

ARRAY: Any = np.ones(3)


class TestAfterAnError:
    def test_shapes_are_as_before(self):
        w, x = oc.param("w"), data(4, 3)
        hidden = w @ x
        before = str(w.shape), str(hidden.shape)
        for program in (
            lambda: hidden + data(5, 2, label="y"),
            lambda: oc.einsum("b | o p => b", x),
            lambda: oc.einsum("b | o = b", hidden),
            lambda: oc.fma(hidden, data(4, 6), data(4, 7)),
            lambda: x[7],
            lambda: hidden + ARRAY,
        ):
            message_of(PLAIN, program)
        assert (str(w.shape), str(hidden.shape)) == before

    @pytest.mark.parametrize("size", [6, 7])
    def test_the_same_tensors_go_on(self, size: int):
        """A clash between a size and what is half known leaves no trace."""
        w = oc.param("w")
        hidden = w @ data(4, 3)
        message_of(oc.ShapeError, lambda: oc.fma(hidden, data(4, 6), data(4, 7)))
        y = hidden + data(4, size)
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        assert ctx[y].shape == (4, size)
        assert ctx[w].shape == (size, 3)

    def test_text_and_results_are_those_without_the_error(self):
        def result(fail: bool) -> tuple[str, np.ndarray]:
            w = oc.param("w", output=2)
            hidden = oc.tanh(w @ data(4, 3))
            if fail:
                message_of(oc.ShapeError, lambda: hidden + data(4, 5))
                message_of(oc.SpecError, lambda: hidden.einsum("b | o -> b"))
            loss = hidden.einsum("...|... => 0")
            if fail:
                message_of(oc.ShapeError, lambda: loss @ data(4, 5, axes="oi"))
            ctx = oc.Context.cpu()
            routine = ctx.compile(train.grad_update(loss), name="step")
            ctx.init_params(loss)
            routine()
            return routine.ir("texpr"), np.asarray(ctx[w.grad])

        (text, gradient), (other, again) = result(False), result(True)
        assert text == other
        np.testing.assert_array_equal(gradient, again)

    def test_an_error_in_a_code_block_closes_it(self):
        n = oc.node("n", output=3, init=0.0)

        def block():
            with oc.code("failing"):
                n[...] = data(5)

        message_of(oc.ShapeError, block)
        message_of(oc.OcannlError, lambda: n.__setitem__(..., 3))
        ctx = oc.Context.cpu()
        ctx.compile(oc.set(n, 3))()
        np.testing.assert_array_equal(ctx[n], [3, 3, 3])

    def test_an_error_when_compiling_leaves_the_context_usable(self):
        x = data(4, 3)
        ctx = oc.Context.cpu()
        w1, w2 = oc.param("w1"), oc.param("w2")
        message_of(oc.ShapeError, lambda: ctx.compile(oc.forward(w2 @ (w1 @ x))))
        y = x + 1
        ctx.compile(oc.forward(y))()
        np.testing.assert_array_equal(ctx[y], np.full((4, 3), 2.0))

    def test_an_error_of_an_index_leaves_the_routine_usable(self):
        i = oc.index("i", 4)
        x = oc.data(np.arange(4.0).reshape(4, 1))
        y = x[i] * 2
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(y))
        message_of(oc.OcannlError, lambda: routine(i=9), "i=9", "0..3")
        routine(i=3)
        assert float(ctx[y]) == 6
