"""Functions in 16 bits on an NVIDIA GPU, whose instructions approximate, for all numbers that there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray
from support.cuda_on_cpu import FakeDriver, install

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]

# By name: the function, its exact values, and an instruction by which it is computed.
FUNCTIONS: dict[str, tuple[Callable[[oc.Tensor], oc.Tensor], Callable[[Array], Array], str]] = {
    "exp": (oc.exp, np.exp, "ex2.approx.ftz.f32"),
    "erf": (oc.erf, scipy.special.erf, "ex2.approx.ftz.f32"),
    "tanh": (oc.tanh, np.tanh, "tanh.approx.f32"),
    "sigmoid": (oc.sigmoid, scipy.special.expit, "div.full.f32"),
    "recip": (lambda x: 1 / x, lambda x: 1 / x, "div.full.f32"),
    "quotient": (lambda x: x / oc.flip(x), lambda x: x / x[::-1], "div.full.f32"),
}
# Other instructions, which are exact.
EXACT = re.compile(r"div\.rn\.f32|rcp\.rn\.f32")


def every(dtype: Any) -> Array:
    """All numbers of a type of 16 bits, with infinities and NaN."""
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def on_gpu(function: Callable[[oc.Tensor], oc.Tensor], x: Array) -> tuple[str, Array]:
    """The kernels, and their results by an interpreter in which approximations have their largest errors."""
    ctx = oc.Context.cuda()
    y = function(oc.data(x, axes="o", label="x"))
    step = ctx.compile(oc.forward(y), name="f")
    step()
    return step.ptx(), np.asarray(ctx[y])


def places(values: Array) -> Array:
    """Numbers of 16 bits as integers in their order, of which neighbours are neighbours."""
    bits = values.view(np.uint16).astype(int)
    return np.where(bits < 0x8000, bits, 0x8000 - bits)


def apart(found: Array, wanted: Array) -> Array:
    """How many numbers of their type lie between results; signs have to be equal, also those of zeros."""
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])
    return np.abs(places(found) - places(wanted))[numbers]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_numbers(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch):
    """At most one number away, and nearly always the nearest one."""
    install(monkeypatch, FakeDriver())
    function, exact, instruction = FUNCTIONS[name]
    x = every(dtype)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float32).astype(np.float64)).astype(np.float32).astype(dtype)
    ptx, found = on_gpu(function, x)
    # The error of the instruction for tanh is too large.
    assert (instruction in ptx) == (name != "tanh" or dtype is not np.float16)
    assert not EXACT.search(ptx)
    away = apart(found, wanted)
    assert away.max() <= 1
    assert np.mean(away > 0) < 0.03


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str, monkeypatch: pytest.MonkeyPatch):
    """In bf16, rounded at the end: half a unit away from exact values, as `1 + tanh` is not approximate."""
    install(monkeypatch, FakeDriver())
    x = np.linspace(-6, 6, 4096).astype(ml_dtypes.bfloat16)
    ptx, found = on_gpu(lambda x: nn.gelu(x, approximate=approximate), x)
    assert not EXACT.search(ptx)
    assert ".approx." not in ptx
    wide = x.astype(np.float64)
    inner = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    exact = 0.5 * wide * (1 + (inner if approximate == "tanh" else scipy.special.erf(np.sqrt(0.5) * wide)))
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=1.01 * 2**-8, atol=1e-5)


@pytest.mark.exhaustive
def test_gelu_whose_tanh_is_stored_for_a_gradient(monkeypatch: pytest.MonkeyPatch):
    """In bf16, by an instruction; what follows reads that."""
    install(monkeypatch, FakeDriver())
    rng = np.random.default_rng(0)
    w1, w2, numbers = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3))
    x = numbers.astype(ml_dtypes.bfloat16)

    def results(ctx: oc.Context) -> tuple[oc.Routine, list[Array]]:
        with oc.precision(oc.float32, compute=oc.bfloat16):
            first, second = (oc.param(n, w, input=[64], output=[64]) for n, w in (("w1", w1), ("w2", w2)))
            y = second @ nn.gelu(first @ oc.data(x, axes="bo", label="x") / 8, approximate="tanh")
        loss = (oc.cast(y, oc.float32) ** 2).sum()
        step = ctx.compile(train.grad_update(loss), name="f")
        ctx.init_params(loss)
        step()
        return step, [np.asarray(ctx[t]) for t in (loss, first.grad, second.grad)]

    step, found = results(oc.Context.cuda())
    ptx = step.ptx()
    assert "tanh.approx.f32" in ptx
    assert not EXACT.search(ptx)
    for left, right in zip(found, results(oc.Context.cpu(threads=1))[1], strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-2 * np.abs(right).max())


def test_results_of_f32_are_exact():
    ctx = oc.Context.emulated_gpu()
    y = oc.tanh(oc.data(np.ones(8, np.float32), label="x"))
    text = ctx.compile(oc.forward(y), name="f").ptx()
    assert EXACT.search(text)
    assert ".approx." not in text
