"""Traced runs: the values of all assignments, the first that is not finite, and differences of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import location_text
from ocannl.execute.reports.traced_routine import TracedRoutine

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 3))


def model() -> tuple[oc.Context, oc.Tensor, oc.Tensor]:
    ctx = oc.Context.cpu(1)
    x = oc.data(IMAGES, label="x")
    hidden = oc.tanh(nn.linear(out_dim=5)(x))
    loss = nn.mse(nn.linear(out_dim=2, label="last")(hidden), oc.data(IMAGES[:, :2]))
    ctx.init_params(loss)
    return ctx, hidden, loss


def test_values_are_those_of_the_nodes():
    ctx, hidden, loss = model()
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    plain = ctx.compile(code, name="step")
    text = plain.ir("loops")
    before = {name: ctx[p].copy() for name, p in oc.params(loss).items()}
    step: Any = ctx.compile(code, name="step", trace=True)
    with pytest.raises(oc.ArgumentError, match="has not run yet"):
        _ = step.trace
    step()
    found = {one.assignment.label: one.value for one in step.trace.steps}
    for name, p in oc.params(loss).items():
        np.testing.assert_array_equal(found[name], ctx[p])
        np.testing.assert_array_equal(found[f"{name}.grad"], ctx[p.grad])
        assert not np.array_equal(ctx[p], before[name])
        ctx[p] = before[name]
    np.testing.assert_allclose(step.trace["tanh"], ctx[hidden], rtol=1e-13)
    traced = {name: ctx[p.grad].copy() for name, p in oc.params(loss).items()}
    plain()
    for name, p in oc.params(loss).items():
        np.testing.assert_allclose(ctx[p.grad], traced[name], rtol=1e-12)
    assert ctx.compile(code, name="step").ir("loops") == text


def test_a_trace_is_a_tree_in_time(tmp_path: Path):
    ctx, hidden, _ = model()
    trace = oc.debug((hidden * 2).named("twice"), ctx)
    lines = str(trace).splitlines()
    assert lines[0] == "twice"
    place = location_text(hidden.op)
    assert next(line for line in lines if line.startswith("├─")) == f"├─ {place}"
    assert lines[-2].startswith("   └─ twice: 6x5 float64 = [[")
    assert lines[-1] == "      of tanh"
    trace.save(tmp_path / "trace.txt")
    assert (tmp_path / "trace.txt").read_text("utf-8").splitlines() == lines
    assert "<pre>" in trace._repr_html_()
    with pytest.raises(KeyError, match="no `other`"):
        trace["other"]


def test_the_first_value_that_is_not_finite():
    ctx = oc.Context.cpu(1)
    x, m = oc.data(np.array([[1.0, 4.0], [0.0, -1.0]]), label="x"), oc.node("m", output=2, init=3.0)
    roots = oc.sqrt(x)
    with oc.code("roots") as code:
        m[...] = oc.sum(roots + 1.0, "batch")
    step = ctx.compile(code, check_nans=True)
    with pytest.raises(oc.OcannlError) as caught:
        step()
    message = str(caught.value).splitlines()
    assert (
        message[0] == f"{location_text(roots.op)}: `sqrt` is the first value that is not finite: nan at 1, 1"
    )
    assert "sqrt(x" in message[1]
    assert message[2] == "  x: 2x2 float64 = [[1 4] [0 -1]]"
    np.testing.assert_array_equal(ctx[m], [3, 3])
    ctx[x] = np.ones((2, 2))
    step()
    np.testing.assert_array_equal(ctx[m], [4, 4])
    with pytest.raises(oc.OcannlError, match="not finite: inf"):
        oc.debug(1.0 / (x - 1.0), ctx)
    assert np.isinf(oc.debug(1.0 / (x - 1.0), ctx, check_nans=False).steps[-1].value).all()


def test_checks_of_ids_are_no_infinities():
    ctx = oc.Context.cpu(1)
    x, ids = oc.data(IMAGES, label="x"), oc.data(np.array([0, 5]), label="ids")
    assert oc.debug(x[ids], ctx).steps[-1].value.shape == (2, 3)
    ctx[ids] = [0, 6]
    with pytest.raises(oc.OcannlError, match="the id 6 in `ids`"):
        oc.debug(x[ids], ctx)


def test_static_indices_and_loops():
    ctx, i = oc.Context.cpu(1), oc.index("i", 6)
    x = oc.data(IMAGES, label="x")
    np.testing.assert_array_equal(oc.debug(x[i] * 2, ctx, i=4).steps[-1].value, 2 * IMAGES[4])
    sums = oc.debug(oc.cumsum(x, 0), ctx).steps[-1].value
    np.testing.assert_allclose(sums, np.cumsum(IMAGES, 0))


def test_a_loop_is_seen_after_its_last_iteration():
    """A recurrence against NumPy: what it carries, stacks, and nothing that it only reads."""
    ctx, w = oc.Context.cpu(1), oc.data(np.array([[0.5, 0.2], [0.1, 0.3]]), axes="oi", label="w")
    xs = oc.data(np.arange(6.0).reshape(3, 2), axes="bo", label="xs")

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        new = oc.tanh(w @ h + x).named("new")
        return new, new

    ys, last = oc.scan(cell, oc.data(np.zeros(2), label="h0"), xs)
    states = [np.zeros(2)]
    for x in np.arange(6.0).reshape(3, 2):
        states.append(np.tanh(np.array([[0.5, 0.2], [0.1, 0.3]]) @ states[-1] + x))
    step = ctx.compile(ys, trace=True)
    assert isinstance(step, TracedRoutine)
    step()
    np.testing.assert_allclose(step.trace.steps[-1].value, states[1:], rtol=1e-12)
    trace = oc.debug(last.sum().named("total"), ctx)
    np.testing.assert_allclose(trace["total"], states[-1].sum(), rtol=1e-12)
    assert {"w", "xs", "h0"}.isdisjoint(one.assignment.label for one in trace.steps)
    sizes = oc.while_loop(lambda v: v < 100, lambda v: v * v + 1, oc.data(2.0, label="s"), most=6)
    assert oc.debug(sizes.named("size"), ctx)["size"] == 677


def test_who_looks_leaves_no_values():
    """Memory without a value before a trace or a profile has none afterwards."""
    ctx, x = oc.Context.cpu(1), oc.data(np.arange(3.0), label="x")
    twice, more = (x * 2).named("twice"), (x * 3).named("more")
    oc.debug(twice, ctx)
    np.testing.assert_array_equal(ctx[twice], [0, 2, 4])
    step = ctx.compile(more)
    step.profile(runs=1)
    with pytest.raises(oc.UninitializedError):
        ctx[more]
    step()
    step.profile(runs=1)
    np.testing.assert_array_equal(ctx[more], [0, 3, 6])


def test_where_two_runs_differ():
    ctx, hidden, loss = model()
    step = ctx.compile(train.grad_update(loss), name="step")
    assert oc.diff(step, step) is None
    other = oc.Context.emulated_gpu()
    for p in oc.params(loss).values():
        other[p] = ctx[p]
    assert oc.diff(step, other.compile(train.grad_update(loss), name="step")) is None
    changed = next(iter(oc.params(loss).values()))
    other[changed] = ctx[changed] + 1e-3
    found = oc.diff(step, other.compile(train.grad_update(loss), name="step"))
    assert found is not None
    assert str(found).splitlines()[0].startswith(f"{__file__}:")
    assert found.greatest > 1e-4
    name = next(iter(oc.params(loss)))
    assert found.given == (name,)
    assert str(found).splitlines()[-1] == f"  the runs began with different values of `{name}`"
    with pytest.raises(oc.OcannlError, match="other programs"):
        oc.diff(step, ctx.compile(hidden))


def test_arguments_are_flags():
    wrong: Any = "yes"
    with pytest.raises(oc.ArgumentError, match="`trace` is True or False"):
        oc.Context.cpu(1).compile(oc.data(IMAGES) * 2, trace=wrong)
