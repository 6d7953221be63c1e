"""Every operator of the scalar table at special values, against its NumPy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl.dialects.scalar import SCALAR_OPS, ScalarOp
from ocannl.dialects.scalar.kinds import TRUTHS, WHOLE

Array = NDArray[Any]

FLOAT_OPERATORS = {name: op for name, op in SCALAR_OPS.items() if op.kind not in WHOLE}

PUBLIC = {"max": "maximum", "min": "minimum", "or": "logical_or", "and": "logical_and", "not": "logical_not"}

EXACT = {
    *(
        "id",
        "relu",
        "sat01",
        "neg",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
        "not",
        "fst",
        "snd",
        "add",
        "sub",
    ),
    *("mul", "div", "relu_gate", "sat01_gate", "lt", "le", "eq", "ne", "or", "and", "max", "min", "where"),
    *("sqrt", "recip", "mod", "trunc", "isnan", "isinf", "isfinite", "copysign", "fmod", "floor_divide"),
}
ULPS = {"pow": 2, "fma": 1, "mul3": 1, "recip_sqrt": 2}
"""In units in the last place; of the largest operand for `fma`. Elsewhere 4."""
POSITIVE = {
    *("log", "log2", "log10", "log1p", "sqrt", "recip_sqrt"),
    *("pow", "recip", "div", "mod", "fmod", "acosh"),
}
"""Gradients are checked at operands greater than 0; those of `acosh`, than 1."""
BELOW_ONE = {"asin", "acos", "atanh"}
"""Gradients are checked between -1 and 1."""
EITHER_ZERO = {"relu", "sat01", "max", "min"}
"""Of zeros of both signs, either is the larger."""


def function(name: str) -> Callable[..., oc.Tensor]:
    return getattr(oc, PUBLIC.get(name, name))


def special(dtype: type[np.floating]) -> Array:
    tiny, most = np.finfo(dtype).tiny, np.finfo(dtype).max / 4
    values = [np.nan, np.inf, 0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 3.75, 0.1, 0.9999, 7.25, 20.0, 85.0]
    values += [1e-5, 1e-3, 1234.5, 1e6, 1e10, tiny, most, 2.0**23 + 1, np.pi]
    values += [
        np.finfo(dtype).max,
        np.finfo(dtype).smallest_subnormal,
        12345 * np.finfo(dtype).smallest_subnormal,
    ]
    found = np.array([*values, *(-v for v in values)], dtype)
    # Those that GPUs compute have all their bits.
    nans = np.full(2, -1, f"i{found.itemsize}").view(dtype)
    return np.concatenate([found, np.copysign(nans, [1, -1], dtype=dtype)])


def operands(dtype: type[np.floating]) -> tuple[Array, Array, Array]:
    """Every pair of special values, and a third that varies with both."""
    values = special(dtype)
    x, y = np.meshgrid(values, values)
    return x, y, np.roll(x, 5, axis=1) + 0


@dataclass
class Compiled:
    inputs: tuple[Array, Array, Array]
    results: dict[str, Array]


@lru_cache
def all_operators(dtype: type[np.floating], backend: str = "cpu") -> Compiled:
    """Every operator of the table in one routine."""
    return operators_on(oc.Context(backend, threads=1), dtype)


def operators_on(ctx: oc.Context, dtype: type[np.floating]) -> Compiled:
    """The same on any device."""
    inputs = operands(dtype)
    tensors = [oc.data(array) for array in inputs]
    results = {name: function(name)(*tensors[: op.arity]) for name, op in FLOAT_OPERATORS.items()}
    ctx.compile(sum(map(oc.forward, results.values()), oc.Code()), name="all_operators")()
    return Compiled(inputs, {name: ctx[tensor] for name, tensor in results.items()})


def reference(op: ScalarOp, *args: Array) -> Array:
    with np.errstate(all="ignore"):
        return op.reference(*args)


def check(name: str, args: tuple[Array, ...], found: Array):
    op = SCALAR_OPS[name]
    dtype = args[0].dtype.type
    wanted = np.broadcast_to(reference(op, *args), found.shape)
    if op.kind in TRUTHS:
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, wanted)
        return
    assert found.dtype == dtype
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if name in EXACT - EITHER_ZERO:
        same &= np.isnan(wanted) | (np.signbit(found) == np.signbit(wanted))
    finite = np.isfinite(wanted) & np.isfinite(found)
    scale = np.abs(wanted)
    if name == "fma":
        with np.errstate(all="ignore"):
            operand = np.abs(args[0] * args[1])
        scale = np.where(np.isfinite(operand), np.maximum(scale, operand), scale)
    near_zero = np.finfo(dtype).smallest_subnormal
    allowed = 0 if name in EXACT else ULPS.get(name, 4)
    error = np.abs(found - wanted, where=finite, out=np.full(found.shape, np.inf, dtype))
    spacing = np.spacing(np.where(finite, np.abs(scale), 1).astype(dtype))
    same |= finite & (error <= allowed * spacing + near_zero)
    if name in ("fma", "mul3"):
        same |= ~np.isfinite(args[0] * args[1])  # which of the roundings overflows
    if not np.all(same):
        worst = np.argwhere(~same)[:5]
        cases = [[*(a[tuple(w)] for a in args), found[tuple(w)], wanted[tuple(w)]] for w in worst]
        pytest.fail(f"{name} (operands, found, wanted): {cases}")


def random_operands(dtype: type[np.floating], shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.uniform(-3, 3, shape).astype(dtype) for shape in shapes]
