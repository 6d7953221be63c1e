"""Blocks against references: one in NumPy, whose gradients are differences, and one in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import train

Array = NDArray[Any]
Arrays = Mapping[str, Array]
STEP = 1e-6


def arrays_of(*shapes: tuple[int, ...], seed: int = 5) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape)) for shape in shapes]


def weights_like(result: Array) -> Array:
    """Different for each cell, so that a sum notices which is which."""
    return 1 + 0.5 * np.sin(1 + np.arange(result.size)).reshape(result.shape)


def weighted_sum(result: oc.Tensor, dtype: type[np.floating[Any]] = np.float64) -> oc.Tensor:
    oc.infer(result)
    rows = {"b": result.shape.batch, "o": result.shape.output, "i": result.shape.input}
    axes = "".join(letter * len(row) for letter, row in rows.items())
    array = weights_like(np.zeros(result.shape.array)).astype(dtype)
    weights = oc.data(array, axes=axes, label="weights")
    return (result * weights).einsum("...|...->... => 0")


@dataclass
class Found:
    """The results of a block: its value, and the value and gradient of each parameter and input."""

    value: Array
    params: dict[str, Array]
    param_gradients: dict[str, Array]
    input_gradients: list[Array]


@dataclass
class Case:
    """A block over inputs, and what it is to compute: `numpy(params, *inputs)`, `torch(params, *inputs)`.

    `axes` are those of each input, as in `oc.data`. Inputs of integers are ids.
    `dtype` is that of the result: counts are integers, and their quotients f32.
    """

    block: Callable[..., oc.Tensor]
    inputs: Sequence[Array]
    numpy: Callable[..., Array]
    torch: Callable[..., Any]
    axes: Sequence[str | None] = ()
    dtype: type[np.number[Any]] = np.float64

    @cached_property
    def found(self) -> Found:
        return self.found_on(oc.Context.cpu(threads=1))

    def found_on(self, ctx: oc.Context, dtype: type[np.floating[Any]] = np.float64) -> Found:
        """The results of the block on a device, with numbers of a type."""
        axes = self.axes or [None] * len(self.inputs)
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in self.inputs]
        tensors = [oc.data(a, axes=x, label="x") for a, x in zip(arrays, axes, strict=True)]
        with oc.precision(dtype):
            result = self.block(*tensors)
        loss = weighted_sum(result, dtype)
        gradients = [t.grad for t, a in zip(tensors, self.inputs, strict=True) if a.dtype.kind == "f"]
        params = oc.params(loss)
        step = ctx.compile(train.grad_update(loss) + result.forward)
        ctx.init_params(loss)
        rng = np.random.default_rng(7)
        for p in params.values():  # away from the ones and zeros of gains and biases
            ctx[p] = rng.uniform(-1, 1, p.shape.array)
        step()
        slopes = {name: np.asarray(ctx[p.grad]) for name, p in params.items()}
        # What an optimizer would not train has no gradient.
        assert {name for name, slope in slopes.items() if slope.any()} <= {*oc.params(loss, trained=True)}
        return Found(
            np.asarray(ctx[result]),
            {name: np.asarray(ctx[p]) for name, p in params.items()},
            slopes,
            [np.asarray(ctx[g]) for g in gradients],
        )

    def check_numpy(self) -> None:
        found = self.found
        wanted = self.numpy(found.params, *self.inputs)
        assert found.value.dtype == self.dtype
        rtol = 1e-6 if self.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(found.value, wanted, rtol=rtol, atol=rtol / 10)
        rng = np.random.default_rng(9)
        for name, gradient in found.param_gradients.items():
            direction = np.asarray(rng.standard_normal(gradient.shape))

            def moved(h: float, name: str = name, direction: Array = direction) -> Array:
                params = {**found.params, name: found.params[name] + h * direction}
                return self.numpy(params, *self.inputs)

            check_slope(moved, float(np.sum(gradient * direction)), name)
        floats = [k for k, a in enumerate(self.inputs) if a.dtype.kind == "f"]
        for k, gradient in zip(floats, found.input_gradients, strict=True):
            direction = np.asarray(rng.standard_normal(gradient.shape))

            def shifted(h: float, k: int = k, direction: Array = direction) -> Array:
                inputs = [a + h * direction if j == k else a for j, a in enumerate(self.inputs)]
                return self.numpy(found.params, *inputs)

            check_slope(shifted, float(np.sum(gradient * direction)), f"input {k}")

    def check_torch(self) -> None:
        torch = pytest.importorskip("torch")
        found = self.found

        def leaf(array: Array) -> Any:
            return torch.tensor(array, requires_grad=array.dtype.kind == "f")

        params = {name: leaf(a) for name, a in found.params.items()}
        inputs = [leaf(a) for a in self.inputs]
        result = self.torch(params, *inputs)
        rtol = 1e-6 if self.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(found.value, result.detach().numpy(), rtol=rtol, atol=rtol / 10)
        (result * torch.tensor(weights_like(found.value))).sum().backward()
        wanted = [t.grad.numpy() for t in inputs if t.requires_grad]
        for gradient, reference in zip(found.input_gradients, wanted, strict=True):
            np.testing.assert_allclose(gradient, reference, rtol=1e-9, atol=1e-10)
        for name, gradient in found.param_gradients.items():
            np.testing.assert_allclose(
                gradient, params[name].grad.numpy(), rtol=1e-9, atol=1e-10, err_msg=name
            )

    def param_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: a.shape for name, a in self.found.params.items()}


def check_slope(moved: Callable[[float], Array], found: float, what: str) -> None:
    """A directional derivative of the weighted sum agrees with differences."""

    def at(h: float) -> float:
        result = np.asarray(moved(h))
        return float(np.sum(result * weights_like(result)))

    wanted = (at(STEP) - at(-STEP)) / (2 * STEP)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6), what


def check_all(cases: Mapping[str, Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test for each case."""
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))
