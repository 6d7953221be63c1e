"""Every operator of the scalar table through the whole compiler, and on every level."""

from __future__ import annotations

import io
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from support.operators import (
    FLOAT_OPERATORS,
    Array,
    all_operators,
    check,
    function,
    random_operands,
    reference,
    special,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

import ocannl as oc
from ocannl.dialects.scalar import ScalarOp, accumulators
from ocannl.lowering.pipelines import new_context, stage_names

TABLE = pytest.mark.parametrize("name", FLOAT_OPERATORS)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])


@TABLE
@DTYPES
@pytest.mark.sampled(5)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(name: str, dtype: type[np.floating]):
    compiled = all_operators(dtype)
    check(name, compiled.inputs[: FLOAT_OPERATORS[name].arity], compiled.results[name])


# Numbers with which operators were folded: 0 hid NaN and infinities, NaN was passed over by extremes.
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, np.inf, -np.inf, np.nan]


@pytest.mark.sampled(13)
@pytest.mark.parametrize("name", [name for name, op in FLOAT_OPERATORS.items() if op.arity > 1])
@DTYPES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_give_what_data_give(name: str, dtype: type[np.floating]):
    values = special(dtype)
    places = range(FLOAT_OPERATORS[name].arity)
    cases = [(place, number) for place in places for number in CONSTANTS]
    tensors = [oc.data(np.roll(values, 3 * place), axes="o") for place in places]
    results = [
        function(name)(*(number if at == place else x for at, x in enumerate(tensors)))
        for place, number in cases
    ]
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum(map(oc.forward, results), oc.Code()), name=f"constants_{name}")()
    for (place, number), result in zip(cases, results, strict=True):
        args = [np.full_like(values, number) if at == place else np.roll(values, 3 * at) for at in places]
        check(name, tuple(args), np.broadcast_to(ctx[result], values.shape))


@lru_cache
def broadcast_operators(dtype: type[np.floating]) -> tuple[list[Array], dict[str, Array]]:
    arrays = random_operands(dtype, [(5, 1, 17), (7, 1), ()])
    tensors = [oc.data(array) for array in arrays]
    results = {name: function(name)(*tensors[3 - op.arity :]) for name, op in FLOAT_OPERATORS.items()}
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum(map(oc.forward, results.values()), oc.Code()), name="broadcast_operators")()
    return arrays, {name: ctx[tensor] for name, tensor in results.items()}


@TABLE
@DTYPES
@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_broadcasting(name: str, dtype: type[np.floating]):
    arrays, results = broadcast_operators(dtype)
    args = np.broadcast_arrays(*arrays[3 - FLOAT_OPERATORS[name].arity :])
    assert results[name].shape == args[0].shape
    check(name, tuple(args), results[name])


@DTYPES
def test_trigonometry_of_large_angles(dtype: type[np.floating]):
    """An angle of a few thousand turns is reduced exactly enough for four places in the last."""
    x = np.linspace(-9e4, 9e4, 1001).astype(dtype)
    tensors = oc.sin(oc.data(x)), oc.cos(oc.data(x))
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(oc.forward(tensors[0]) + oc.forward(tensors[1]), name="angles")()
    for tensor, meaning in zip(tensors, (np.sin, np.cos), strict=True):
        wanted = meaning(x.astype(np.float64))
        assert np.abs(ctx[tensor] - wanted).max() < 8 * np.finfo(dtype).eps


@DTYPES
def test_remainders_of_all_quotients(dtype: type[np.floating]):
    """Bit by bit: quotients around the largest that one division finds, far ones beside near ones in one
    vector, multiples, and operands without a remainder.
    """
    random, info = np.random.default_rng(4), np.finfo(dtype)
    x, y = (np.exp2(random.uniform(0, 2, (2, 800)))).astype(dtype)
    x = x * np.exp2(random.integers(info.nmant - 3, info.nmant + 4, 800)).astype(dtype)
    x[::7] = y[::7] * dtype(3 << 20)
    x[::5] /= info.max
    x[::11] *= -(dtype(2) ** 60)
    x, y = x.astype(dtype), y * random.choice([-1, 1], 800).astype(dtype)
    rare = np.array([0, -0.0, 1, -3, math.inf, -math.inf, math.nan, info.max, info.smallest_subnormal], dtype)
    x, y = (np.append(a, b.ravel()) for a, b in zip((x, y), np.meshgrid(rare, rare), strict=True))
    first, second = oc.data(x), oc.data(y)
    with np.errstate(all="ignore"):
        pairs = [(oc.fmod(first, second), np.fmod(x, y)), (first % second, np.mod(x, y))]
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(oc.forward(pairs[0][0]) + oc.forward(pairs[1][0]), name="remainders")()
    for tensor, wanted in pairs:
        np.testing.assert_array_equal(ctx[tensor], wanted)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(ctx[tensor])[numbers], np.signbit(wanted)[numbers])


@pytest.mark.sampled(3)
@DTYPES
def test_python_operators(dtype: type[np.floating]):
    a, b = random_operands(dtype, [(3, 4), (3, 4)])
    x, y = oc.data(a), oc.data(b)
    pairs = [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x / y, a / b),
        (x**2, a**2),
        (-x, -a),
        (x + 1, a + 1),
        (1 + x, 1 + a),
        (1 - x, 1 - a),
        (x - 1, a - 1),
        (2 * x, 2 * a),
        (1 / x, 1 / a),
        (x / 4, a / 4),
        (2**x, 2**a),
        (x // y, a // b),
        (2 // x, 2 // a),
        (x < y, a < b),
        (x <= y, a <= b),
        (x > y, a > b),
        (x >= y, a >= b),
        (oc.eq(x, x), a == a),
        (oc.ne(x, y), a != b),
        (oc.where(x < y, x, y), np.minimum(a, b)),
        (np.float64(0.5) * x, 0.5 * a),
    ]
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum((oc.forward(t) for t, _ in pairs), oc.Code()), name="python_operators")()
    for tensor, wanted in pairs:
        assert ctx[tensor].dtype == (np.bool_ if wanted.dtype == np.bool_ else dtype)
        wanted = wanted.astype(ctx[tensor].dtype)
        np.testing.assert_allclose(ctx[tensor], wanted, rtol=8 * float(np.finfo(dtype).eps))


ACCUMULATORS = pytest.mark.parametrize("op", accumulators(), ids=lambda op: op.name)


@pytest.mark.sampled(3)
@DTYPES
@ACCUMULATORS
@pytest.mark.parametrize("reset", [False, True], ids=["keep", "reset"])
def test_accumulation(op: ScalarOp, dtype: type[np.floating], reset: bool):
    """Each accumulator over rows of awkward lengths, from what is there or from its neutral element."""
    assert op.neutral is not None
    for length in (1, 3, 8, 37):
        (array,) = random_operands(dtype, [(4, length)])
        if op.name in ("or", "and"):
            array = (array > 0).astype(dtype)
        total = oc.node("total", output=4)
        ctx = oc.Context.cpu(threads=1)
        rows = oc.data(array)
        spec = "b | o => b"
        routine = ctx.compile(
            oc.accumulate(total, op.name, rows, spec=spec, reset=reset), name="accumulation"
        )
        before = np.array([1, 0, -1, 0.5], dtype)
        if op.name in ("or", "and"):
            before = np.abs(np.sign(before))
        ctx[total] = before
        routine()
        wanted = np.full(4, op.neutral, dtype) if reset else before.astype(dtype)
        for k in range(length):
            wanted = reference(op, wanted, array[:, k])
        scale = np.abs(array).sum(axis=1).max() if op.name == "add" else np.abs(wanted)
        assert np.all(np.abs(ctx[total] - wanted) <= 4 * length * np.finfo(np.float32).eps * scale)


@DTYPES
@pytest.mark.parametrize("special_value", [np.nan, np.inf, -np.inf])
def test_reductions_of_special_values(dtype: type[np.floating], special_value: float):
    (array,) = random_operands(dtype, [(6, 21)])
    for row, column in enumerate((0, 3, 8, 15, 20)):
        array[row, column] = special_value
    x = oc.data(array)
    total, most = oc.einsum("b | o => b", x), oc.einmax("b | o => b", x)
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(oc.forward(total) + oc.forward(most), name="special_reductions")()
    np.testing.assert_allclose(ctx[total], array.sum(axis=1), rtol=64 * float(np.finfo(dtype).eps))
    np.testing.assert_array_equal(ctx[most], array.max(axis=1))


@DTYPES
def test_contractions(dtype: type[np.floating]):
    """The schedule's sizes, and sizes just beside them."""
    for m, k, n in [(1, 1, 1), (5, 3, 2), (16, 16, 16), (17, 33, 15), (31, 7, 65)]:
        a, b = random_operands(dtype, [(m, k), (k, n)])
        x, y = oc.data(a, axes="oi"), oc.data(b, axes="oi")
        product, most = x @ y, oc.tropical("k -> m; n -> k => n -> m", x, y)
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(oc.forward(product) + oc.forward(most), name="contractions")()
        scale = np.abs(a) @ np.abs(b)
        assert np.all(np.abs(ctx[product] - a @ b) <= (k + 4) * np.finfo(dtype).eps * scale)
        np.testing.assert_array_equal(ctx[most], (a[:, :, None] + b[None]).max(axis=1))


def printed(module: Any) -> str:
    text = io.StringIO()
    Printer(stream=text).print_op(module)
    return text.getvalue().strip()


def check_round_trip(text: str):
    module = Parser(new_context(), text).parse_module()
    module.verify()
    assert printed(module) == text.strip()


@pytest.mark.sampled(3)
@TABLE
@pytest.mark.parametrize("stage", ["texpr", "assign", "loops"])
def test_levels(name: str, stage: str):
    arity = FLOAT_OPERATORS[name].arity
    arrays = random_operands(np.float32, [(3, 4), (3, 4), (3, 4)])
    text = function(name)(*(oc.data(a) for a in arrays[:arity])).ir(stage)
    assert stage != "texpr" or name == "id" or f"{name}(" in text
    check_round_trip(text)


@pytest.mark.exhaustive
@pytest.mark.sampled(15)
@pytest.mark.parametrize("stage", list(stage_names("cpu"))[::2])
def test_all_operators_at_every_stage(stage: str):
    """One routine with every operator and its derivative."""
    arrays = random_operands(np.float64, [(3, 4), (3, 4), (3, 4)])
    params = [oc.param(f"p{k}", a, batch=[], output=[3, 4], input=[]) for k, a in enumerate(arrays)]
    total = sum(function(name)(*params[: op.arity]) for name, op in FLOAT_OPERATORS.items())
    assert isinstance(total, oc.Tensor)
    check_round_trip((oc.forward(total) + total.backprop).ir(stage))


def test_numbers_beside_tensors_are_part_of_the_operation():
    x = oc.param("x", output=[3])
    text = oc.where(2 * x < x**2, x, -1.5).ir("texpr")
    assert "texpr.constant" not in text
    for operation in ("mul(2, %x)", "pow(%x, 2)", ", %x, -1.5)"):
        assert operation in text
    assert "texpr.constant 1 " in oc.relu(1).ir("texpr")


def test_rounding_of_python():
    x = oc.data(np.array([-1.5, -0.3, 0.5, 2.5, 7.8]), label="x")
    ctx = oc.Context.cpu(threads=1)
    for rounded, expected in ((round, np.round), (math.floor, np.floor), (math.ceil, np.ceil)):
        found: Any = rounded(x)
        np.testing.assert_array_equal(ctx[found], expected(ctx[x]))


def test_exact_numbers_of_python():
    x = oc.data([2, 4])
    found = Decimal("0.25") + x * Fraction(1, 2)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.numpy(), [1.25, 2.25])
    with pytest.raises(oc.ArgumentError, match="found Decimal"):
        _ = x + Decimal("sNaN")
