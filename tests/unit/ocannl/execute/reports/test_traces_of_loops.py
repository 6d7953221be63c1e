"""Traces of what loops compute: the values of all iterations, and the first that is not finite among them."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import location_text
from ocannl.execute.reports.traced_routine import TracedRoutine
from ocannl.runtime import traced_loops

W = np.array([[0.5, 0.2], [0.1, 0.3]])
XS = np.arange(6.0).reshape(3, 2)


def recurrence() -> tuple[oc.Tensor, oc.Tensor]:
    w, xs = oc.data(W, axes="oi", label="w"), oc.data(XS, axes="bo", label="xs")

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        inner = (w @ h + x).named("inner")
        return oc.tanh(inner).named("new"), inner

    return oc.scan(cell, oc.data(np.zeros(2), label="h0"), xs)


@pytest.mark.parametrize("ctx", [oc.Context.cpu(1), oc.Context.emulated_gpu()], ids=["cpu", "gpu"])
def test_values_of_all_iterations(ctx: oc.Context):
    """A recurrence against NumPy; what is carried is known as each iteration begins."""
    _, last = recurrence()
    states, inners = [np.zeros(2)], list[np.ndarray]()
    for x in XS:
        inners.append(W @ states[-1] + x)
        states.append(np.tanh(inners[-1]))
    trace = oc.debug(last.sum().named("total"), ctx)
    np.testing.assert_allclose(trace["inner at t"], inners, rtol=1e-12)
    np.testing.assert_allclose(trace["new at t"], states[1:], rtol=1e-12)
    np.testing.assert_allclose(trace["total"], states[-1].sum(), rtol=1e-12)
    of_new = next(step.assignment for step in trace.steps if step.assignment.label == "new at t")
    assert of_new.operands == ("inner at t",)
    carried = next(kept for step in trace.steps for kept in step.assignment.read if kept.label == "h0 at t")
    np.testing.assert_allclose(trace.after[carried.memory].value, states[:-1], rtol=1e-12)


def test_the_iteration_of_a_nan():
    ctx, h0 = oc.Context.cpu(1), oc.data(np.array([2.0, 1.2]), label="h0")
    made: list[oc.Tensor] = []

    def cell(h: oc.Tensor, _: object) -> tuple[oc.Tensor, None]:
        made.append(oc.sqrt(h - 0.9))
        return made[-1], None

    last = oc.scan(cell, h0, None, length=5)[1]
    with pytest.raises(oc.OcannlError) as caught:
        oc.debug(last, ctx)
    inner = np.sqrt(np.array([2.0, 1.2]) - 0.9) - 0.9
    assert str(caught.value).splitlines() == [
        f"{location_text(made[0].op)}: `sqrt` is the first value that is not finite: "
        "nan at 1, in the iteration t = 1",
        "  sqrt[o] := sqrt(n[o]) over (o = 2)",
        f"  n: 2 float64 = [{inner[0]:.4g} {inner[1]:.4g}]",
    ]


def test_iterations_of_loops_in_loops():
    """The first NaN in time, not in the text: an earlier operation of a later iteration is not told."""
    xs = oc.data(np.array([[3.0, 3.0], [1.0, 2.0], [0.5, 0.1], [1.0, 1.0]]), axes="bo", label="xs")

    def outer(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        scaled = oc.sqrt(h + 9.0)
        inner = oc.scan(lambda g, _: (oc.log(g * x) + 0.5, None), h, None, length=2)[1]
        return inner, scaled

    ys, last = oc.scan(outer, oc.data(np.array([2.0, 1.2]), label="h0"), xs)
    total = ys.sum() + last.sum()
    with pytest.raises(oc.OcannlError, match=r"`log` .*: nan at 0, in the iteration t = 2, t1 = 1\n"):
        oc.debug(total, oc.Context.cpu(1))
    trace, h = oc.debug(total, oc.Context.cpu(1), check_nans=False), np.array([2.0, 1.2])
    with np.errstate(invalid="ignore"):
        for number, x in enumerate([[3.0, 3.0], [1.0, 2.0], [0.5, 0.1], [1.0, 1.0]]):
            np.testing.assert_allclose(trace["sqrt at t"][number], np.sqrt(h + 9), rtol=1e-12)
            for turn in range(2):
                h = np.log(h * np.array(x)) + 0.5
                np.testing.assert_allclose(trace["log at t, t1"][number, turn], h - 0.5, rtol=1e-12)


def test_iterations_that_did_not_run_are_zero():
    ctx, s = oc.Context.cpu(1), oc.data(2.0, label="s")
    size = oc.while_loop(lambda v: v < 100, lambda v: (v * v + 1).named("next"), s, most=6)
    step = ctx.compile(size.named("size"), trace=True)
    assert isinstance(step, TracedRoutine)
    step()
    np.testing.assert_array_equal(step.trace["next at t"], [5, 26, 677, 0, 0, 0])
    ctx[s] = 20.0
    step()
    np.testing.assert_array_equal(step.trace["next at t"], [401, 0, 0, 0, 0, 0])


@pytest.mark.exhaustive
def test_a_training_step_of_a_recurrent_network():
    """Loops in both directions have the same values on two backends, and leave memory as a plain run does."""
    xs = oc.data(np.random.default_rng(0).normal(size=(4, 5, 3)), axes="bbo", label="xs")
    loss = nn.mse(nn.linear(out_dim=2)(nn.gru(6)(xs)), oc.data(np.zeros((4, 5, 2)), axes="bbo"))
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    contexts = [oc.Context.cpu(1), oc.Context.cpu(1), oc.Context.emulated_gpu()]
    for ctx in contexts:
        ctx.init_params(loss)
    steps = [
        ctx.compile(code, "step", trace=number == 0, check_nans=number == 0)
        for number, ctx in enumerate(contexts)
    ]
    assert oc.diff(steps[1], steps[2]) is None
    for step in steps[:2]:
        step()
    for p in oc.params(loss).values():
        np.testing.assert_allclose(contexts[0][p], contexts[1][p], rtol=1e-12, atol=1e-15)


def test_large_values_are_seen_after_the_last_iteration(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(traced_loops, "MOST_BYTES", 3 * 2 * 8 - 1)
    _, last = recurrence()
    trace = oc.debug(last.named("last"), oc.Context.cpu(1))
    assert not any(" at " in step.assignment.label for step in trace.steps)
    assert trace["last"].shape == (2,)
