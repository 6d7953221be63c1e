"""Functions whose values are looked at: traces of calls, and the first value that is not finite."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.functions.function import Function

X = np.array([[1.0, 2.0], [-3.0, 0.5]])


def test_a_trace_of_a_call():
    @oc.function(ctx=oc.Context.cpu(1))
    def f(x: oc.Tensor, scale: oc.Tensor) -> oc.Tensor:
        return (oc.tanh(x) * scale).sum()

    trace = f.debug(X, 2.0)
    np.testing.assert_allclose(trace["tanh"], np.tanh(X), rtol=1e-12)
    assert f.signatures() == f.signatures()[:1]
    np.testing.assert_allclose(f(X, 2.0), 2 * np.tanh(X).sum(), rtol=1e-6)
    assert oc.diff(trace, f.debug(X, 2.0)) is None
    found = oc.diff(trace, f.debug(X + 1e-2, 2.0))
    assert found is not None
    assert found.first.assignment.label == "tanh"
    with pytest.raises(oc.OcannlError, match="`tanh` is the first value that is not finite: nan at 0, 1"):
        f.debug(np.array([[1.0, np.nan]]), 2.0)
    assert np.isnan(f.debug(np.array([[1.0, np.nan]]), 2.0, check_nans=False)["tanh"][0, 1])


def training(ctx: oc.Context, check_nans: bool) -> tuple[Function, oc.Tensor]:
    w = oc.param("w", np.array([0.5, 0.5]), output=[], input=2)

    @oc.function(ctx=ctx, check_nans=check_nans)
    def step(x: oc.Tensor) -> oc.Tensor:
        loss = oc.log(w @ x).mean().named("loss")
        train.grad_update(loss)
        train.sgd_update(loss, learning_rate=0.1)
        return loss

    return step, w


def test_a_call_that_checks():
    """It raises where the value is computed, changes nothing then, and else does what other calls do."""
    contexts = [oc.Context.cpu(1), oc.Context.cpu(1)]
    (checked, w), (plain, other) = (training(ctx, ctx is contexts[0]) for ctx in contexts)
    good, bad = np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[1.0, 2.0], [-3.0, 1.0]])
    np.testing.assert_allclose(checked(good), plain(good), rtol=1e-12)
    np.testing.assert_allclose(contexts[0][w], contexts[1][other], rtol=1e-12)
    before = contexts[0][w]
    with pytest.raises(oc.OcannlError, match="`log` is the first value that is not finite: nan at 1"):
        checked(bad)
    np.testing.assert_array_equal(contexts[0][w], before)
    assert np.isnan(plain(bad))


def test_derivatives_check_what_their_function_checks():
    f = oc.function(lambda x: oc.sqrt(x).sum(), ctx=oc.Context.cpu(1), check_nans=True)
    np.testing.assert_allclose(oc.grad(f)(np.array([4.0, 1.0])), [0.25, 0.5], rtol=1e-12)
    with pytest.raises(oc.OcannlError, match="not finite: inf at 1"):
        oc.grad(f)(np.array([4.0, 0.0]))


def test_a_trace_leaves_nothing():
    ctx = oc.Context.cpu(1)
    model = nn.linear(out_dim=2, label="layer")
    f = oc.function(lambda x: model(x), ctx=ctx)
    f.debug(X)
    assert all(p not in ctx for p in oc.params(f.last_lowered().code).values())
    step, w = training(ctx, check_nans=False)
    step.debug(np.ones((1, 2)))
    assert w not in ctx


def test_what_is_no_routine():
    f = oc.function(lambda x: x * 2)
    with pytest.raises(oc.ArgumentError, match=r"by a call: f\.debug\(x\)"):
        oc.debug(f)  # pyright: ignore[reportArgumentType]
    with pytest.raises(oc.ArgumentError, match="found Function"):
        oc.diff(f, f)  # pyright: ignore[reportArgumentType]
    wrong = "yes"
    with pytest.raises(oc.ArgumentError, match="`check_nans` is True or False"):
        oc.function(lambda x: x, check_nans=wrong)  # pyright: ignore
