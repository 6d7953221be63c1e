"""Whole programs on an emulated GPU give what they give on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import operators
from support.device_programs import Array, close, moons, train_decoder, train_moons
from support.operators import FLOAT_OPERATORS

import ocannl as oc
from ocannl import nn
from ocannl.dialects.ir.errors import DeviceError


def checked() -> oc.Context:
    return oc.Context.emulated_gpu(check=True, shuffle=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_at_special_values(dtype: type[np.floating[Any]]):
    found = operators.all_operators(dtype, "emulated_gpu")
    for name, op in FLOAT_OPERATORS.items():
        operators.check(name, found.inputs[: op.arity], found.results[name])


def values(ctx: oc.Context, *tensors: oc.Tensor, **indices: int) -> list[Array]:
    ctx.compile(sum(map(oc.forward, tensors), oc.Code()), name="values")(**indices)
    return [ctx[tensor] for tensor in tensors]


def test_random_numbers_have_the_same_bits():
    n = oc.index("n")
    uniform = oc.uniform(n, output=[40, 3], key="u")
    kept = nn.dropout(rate=0.3)(oc.data(np.ones((64, 32), np.float32), axes="bo"), train_step=n)
    for found, wanted in zip(
        values(checked(), uniform, kept, n=5), values(oc.Context.cpu(), uniform, kept, n=5), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_half_precision_and_integers():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 50)).astype(np.float16), rng.standard_normal((30, 50)).astype(np.float16)
    w, x = oc.data(a, axes="oi"), oc.data(b, axes="bo")
    counts = oc.data((9 * a).astype(np.int32), axes="bo")
    tensors = w @ x, oc.exp(x), (x * x).einsum("...|... => 0"), counts.einsum("...|... => 0")
    for found, wanted in zip(values(checked(), *tensors), values(oc.Context.cpu(), *tensors), strict=True):
        assert found.dtype == wanted.dtype
        close(found, wanted, 2e-3 if found.dtype == np.float16 else 1e-5, str(found.dtype))


def test_moons_train_alike():
    wanted, found = train_moons(oc.Context.cpu()), train_moons(oc.Context.emulated_gpu())
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert not np.all(found[0] == found[-8])


@pytest.mark.exhaustive
def test_a_decoder_trains_alike():
    wanted = train_decoder(oc.Context.cpu())
    found = train_decoder(checked())
    for name, array in wanted.items():
        close(found[name], array, 2e-5, name)
    again = train_decoder(oc.Context.emulated_gpu(shuffle=8))
    for name, array in found.items():
        np.testing.assert_array_equal(again[name], array)


def test_what_was_compiled_can_be_seen():
    loss, code, _ = moons()
    ctx = oc.Context.emulated_gpu()
    step = ctx.compile(code, name="step")
    ctx.init_params(loss)
    assert "kernel.launch" in step.ir("kernels")
    assert "loops.nest" in step.ir("loops")
    assert 'define void @"routine step"' in step.ir("llvm")
    assert step.schedule().splitlines()[0].split() == [
        "kernel",
        "grid",
        "block",
        "registers",
        "shared",
        "bytes",
    ]
    assert ctx.backend == "emulated_gpu"


def test_a_violation_is_told_once():
    """An index without a range may select what is not there, where nobody checks it."""
    i = oc.index("i")
    x = oc.data(np.ones((3, 4), np.float32), axes="bo", label="x")
    ctx = oc.Context.emulated_gpu(check=True)
    y = x[i] * 2.0
    step = ctx.compile(y)
    step()
    step._args.values[step._slots["i"]] = 7
    with pytest.raises(DeviceError, match="`x`: thread 0 of block 0 is outside at element 28"):
        step()
    step(i=2)
    np.testing.assert_array_equal(ctx[y], np.full(4, 2, np.float32))


def test_positions_in_an_array_without_elements():
    x, at = oc.data(np.zeros((0, 2), np.float32), axes="bb"), oc.data(np.array(1), axes="")
    assert checked()[oc.gather("a v |; => a", x, at, at="v")].shape == (0,)


@pytest.mark.parametrize("shuffle", [1.5, "1", True])
def test_an_order_is_an_integer(shuffle: Any):
    with pytest.raises(oc.ArgumentError, match="the order of threads is an integer, found"):
        oc.Context.emulated_gpu(shuffle=shuffle)


def test_backend_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_BACKEND", "emulated_gpu")
    assert oc.Context.auto().backend == "emulated_gpu"
