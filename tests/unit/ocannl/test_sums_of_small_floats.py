"""Sums, means, norms and losses of f16 and bf16, and their gradients: those of f64, rounded a few times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from support.metal_on_cpu import COMPILER
from support.stand_ins import stand_ins

import ocannl as oc
from ocannl import nn, train

Array: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[[oc.Tensor], oc.Tensor]

HALVES = pytest.mark.parametrize("dtype", [oc.float16, oc.bfloat16], ids=["f16", "bf16"])
UNITS = {oc.float16: 2.0**-11, oc.bfloat16: 2.0**-8}
"""Half of the distance between 1 and the next number."""
MOST = 6
"""The errors that are allowed, in units of the greatest element."""
BACKENDS: dict[str, Callable[[], oc.Context]] = {
    "cpu": lambda: oc.Context.cpu(threads=1),
    "emulated_gpu": lambda: oc.Context.emulated_gpu(check=True, shuffle=1),
    "cuda": oc.Context.cuda,
    "metal": oc.Context.metal,
}
METAL = pytest.param("metal", marks=pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler"))

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 1024, 16)
SHIFTED = 30 + RNG.standard_normal((16, 1024))
CENTRED = 3 * RNG.standard_normal((16, 1024))
LARGE = 300 * RNG.standard_normal((16, 1024))
IMAGE = 30 + RNG.standard_normal((4, 8, 8, 16))
NORMS: dict[str, tuple[Function, Array]] = {
    "layer norm": (lambda x: nn.layer_norm()(x), SHIFTED),
    "layer norm of large numbers": (lambda x: nn.layer_norm()(x), LARGE),
    "rms norm": (lambda x: nn.rms_norm()(x), SHIFTED),
    "rms norm of large numbers": (lambda x: nn.rms_norm()(x), LARGE),
    "variance": (lambda x: oc.var(x, 1), SHIFTED),
    "softmax": (lambda x: nn.softmax()(x), CENTRED),
    "cross entropy": (lambda x: nn.cross_entropy(x, oc.data(IDS, axes="b")), CENTRED),
}
OTHERS: dict[str, tuple[Function, Array]] = {
    "sum": (lambda x: oc.sum(x, 1), CENTRED),
    "mean": (lambda x: oc.mean(x, 1), 300 * SHIFTED),
    "variance of large numbers": (lambda x: oc.var(x, 1), LARGE / 2),
    "standard deviation": (lambda x: oc.std(x, 1), SHIFTED),
    "norm": (lambda x: oc.norm(x, 1), LARGE),
    "norm of order 3": (lambda x: oc.norm(x, 1, ord=3), 10 * CENTRED),
    "batch norm": (lambda x: nn.batch_norm1d()(x, train_step=0), np.ascontiguousarray(SHIFTED.T)),
    "group norm": (lambda x: nn.group_norm(num_groups=4)(x), IMAGE),
    "log-softmax": (lambda x: nn.log_softmax()(x), CENTRED),
    "logsumexp": (lambda x: oc.logsumexp(x, 1), CENTRED),
    "mse": (lambda x: nn.mse(x, x * 0.5), LARGE),
    "l1": (lambda x: nn.l1(x, -x), LARGE),
    "average pooling": (lambda x: nn.avg_pool2d(window_size=3, stride=2)(x), IMAGE),
    "global average pooling": (lambda x: nn.global_avg_pool2d(x), 1000 * IMAGE),
    "cumsum": (lambda x: oc.cumsum(x, 1), np.abs(CENTRED)),
    "cumprod": (lambda x: oc.cumprod(x, 1), 1 + CENTRED / 1000),
    "logcumsumexp": (lambda x: oc.logcumsumexp(x, 1), CENTRED),
    "product": (lambda x: oc.prod(x, 1), 1 + CENTRED / 1000),
}


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    with stand_ins():
        yield


def wide(array: Array) -> NDArray[np.float64]:
    return np.asarray(array).astype(np.float64)


def found(function: Function, array: Array, ctx: oc.Context) -> tuple[Array, Array]:
    """A function of an array, and the gradient of a sum of that with weights."""
    x = oc.data(array, axes="b" * (array.ndim - 1) + "o")
    y = function(x)
    total = oc.sum(oc.cast(y, np.promote_types(array.dtype, np.float32)) * weights(y))
    gradient = oc.grad(total, x)
    ctx.init_params(y)
    ctx.compile(y.forward + gradient.forward)()
    return ctx[y], ctx[gradient]


def weights(y: oc.Tensor) -> oc.Tensor:
    """Numbers that differ between the elements: the gradient of a norm's sum is 0."""
    oc.infer(y)
    sizes = y.shape.array
    ramp = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    rows = "b" * len(y.shape.batch or ()) + "o" * len(y.shape.output or ())
    return oc.data(1 + 0.5 * np.cos(ramp).astype(oc.bfloat16).astype(np.float32), axes=rows)


def check(name: str, dtype: Any, backend: str) -> None:
    function, numbers = (NORMS | OTHERS)[name]
    small = numbers.astype(dtype)
    for kind, one, exact in zip(
        ("value", "gradient"),
        found(function, small, BACKENDS[backend]()),
        found(function, wide(small), BACKENDS["cpu"]()),
        strict=True,
    ):
        assert one.dtype == dtype
        error = np.abs(wide(one) - exact).max() / np.abs(exact).max() / UNITS[dtype]
        assert error <= MOST, f"{kind}: {error:.1f} units of rounding"


@pytest.mark.sampled(13)
@HALVES
@pytest.mark.parametrize("name", [*NORMS, *OTHERS])
def test_they_are_rounded_a_few_times(name: str, dtype: Any):
    check(name, dtype, "cpu")


@HALVES
@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", ["emulated_gpu", "cuda", METAL])
@pytest.mark.parametrize("name", NORMS)
def test_on_gpus(name: str, dtype: Any, backend: str):
    check(name, dtype, backend)


def test_a_mean_fits_where_its_sum_does_not():
    ones = oc.data(np.ones(70_000, oc.float16))
    with np.errstate(over="ignore"):
        assert (oc.mean(ones).item(), oc.sum(ones).item()) == (1.0, np.inf)
    assert oc.mean(ones).dtype == oc.float16


def test_a_cast_rounds_a_mean():
    x = oc.data(np.array([1.0] * 9 + [1.1], oc.float16))
    mean = oc.cast(oc.mean(x), np.float32)
    rounded = oc.cast(oc.cast(mean, oc.float16), np.float32)
    exact = wide(x.numpy()).mean()
    assert abs(mean.item() - exact) < 1e-6 < abs(rounded.item() - exact)


def test_memory_of_layers_stays_small():
    """Layers keep numbers of 16 bits for their gradients, but for statistics."""
    x = oc.data(np.ones((64, 256), oc.float16), axes="bo")
    with oc.precision(oc.float16):
        h = nn.layer_norm(label="norm")(x)
        h = oc.relu(nn.linear(out_dim=512, label="wide")(h))
    loss = oc.mean(h * h)
    text = train.grad_update(loss).ir("loops")
    values = [line for line in text.splitlines() if " local at " in line and "intermediate value" in line]
    assert {line.rpartition(" : ")[2] for line in values if "f32" in line} == {"memref<64xf32>"}
