"""Floats of 8 and 16 bits in programs: results are those of f32, rounded where they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from support.arm_on_cpu import NEEDS_ARM, arm_context
from support.metal_on_cpu import COMPILER
from support.operators import FLOAT_OPERATORS, function
from support.small_floats import check_equal
from support.stand_ins import stand_ins

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import OcannlError

Array = NDArray[Any]

TYPES = {"f16": oc.float16, "bf16": oc.bfloat16, "f8E5M2": oc.float8_e5m2, "f8E4M3FN": oc.float8_e4m3fn}
ALL = pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
HALVES = pytest.mark.parametrize("dtype", [oc.float16, oc.bfloat16], ids=["f16", "bf16"])
BACKENDS: dict[str, Callable[[], oc.Context]] = {
    "cpu": oc.Context.cpu,
    "emulated_gpu": lambda: oc.Context.emulated_gpu(check=True, shuffle=1),
    "metal": oc.Context.metal,
    "cuda": oc.Context.cuda,
    "neon": lambda: arm_context("neoverse-v1"),
}
CPU_AND_GPU = pytest.mark.parametrize("backend", ["cpu", "emulated_gpu"])
METAL = pytest.param("metal", marks=pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler"))
EVERYWHERE = pytest.mark.parametrize("backend", ["cpu", "emulated_gpu", "cuda", METAL])
# Rounding of single operations, in terms of the results.
EPSILON = {oc.float16: 2**-10, oc.bfloat16: 2**-7, oc.float8_e5m2: 2**-2, oc.float8_e4m3fn: 2**-3}


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    with stand_ins():
        yield


def wide(array: Array) -> NDArray[np.float32]:
    return np.asarray(array).astype(np.float32)


def rounded(array: Array, dtype: Any) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype)


def special(dtype: Any) -> Array:
    values = [np.nan, np.inf, 0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 3.75, 0.1, 0.9999, 7.25, 20.0, 85.0, 440.0, 1e-3]
    bits, limits = f"uint{8 * np.dtype(dtype).itemsize}", ml_dtypes.finfo(dtype)
    smallest = np.array([1, 2, 3], bits).view(dtype)
    ends = np.array([limits.tiny, limits.max, -limits.max, limits.eps], dtype)
    return np.concatenate([rounded(np.array([*values, *(-v for v in values)]), dtype), smallest, ends])


def values(ctx: oc.Context, *tensors: oc.Tensor, **indices: int) -> list[Array]:
    ctx.compile(sum(map(oc.forward, tensors), oc.Code()), name="values")(**indices)
    return [ctx[tensor] for tensor in tensors]


@lru_cache
def all_operators(dtype: Any, backend: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Every operator of the table, on small floats, and on the same numbers as f32."""
    x, y = np.meshgrid(special(dtype), special(dtype))
    found: list[dict[str, Array]] = []
    for inputs in ((x, y, x.T), (wide(x), wide(y), wide(x.T))):
        tensors = [oc.data(np.ascontiguousarray(array)) for array in inputs]
        results = {name: function(name)(*tensors[: op.arity]) for name, op in FLOAT_OPERATORS.items()}
        arrays = values(BACKENDS[backend](), *results.values())
        found.append(dict(zip(results, arrays, strict=True)))
    return found[0], found[1]


@pytest.mark.exhaustive
@pytest.mark.sampled(19)
@ALL
@EVERYWHERE
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_is_that_of_f32_and_rounded(dtype: Any, backend: str):
    check_every_operator(dtype, backend)


@pytest.mark.sampled(3)
@NEEDS_ARM
@ALL
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_on_neon(dtype: Any):
    check_every_operator(dtype, "neon")


def check_every_operator(dtype: Any, backend: str) -> None:
    small, single = all_operators(dtype, backend)
    for name in FLOAT_OPERATORS:
        if small[name].dtype == np.bool_:
            np.testing.assert_array_equal(small[name], single[name])
        else:
            check_equal(small[name], rounded(single[name], dtype))


@pytest.mark.exhaustive
@HALVES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_of_one_operand_at_every_number(dtype: Any):
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype)
    names = [name for name, op in FLOAT_OPERATORS.items() if op.arity == 1]
    results = [function(name)(oc.data(x)) for name in names for x in (numbers, wide(numbers))]
    found = values(oc.Context.cpu(), *results)
    for small, single in zip(found[::2], found[1::2], strict=True):
        check_equal(small, rounded(single, small.dtype))


@ALL
@CPU_AND_GPU
def test_a_sum_is_rounded_once(dtype: Any, backend: str):
    """In steps, the sum of 3000 ones would be 256 in bf16, 8 in f8E5M2."""
    ones = oc.data(np.full((3000, 3), 0.125, np.float32).astype(dtype))
    (total,) = values(BACKENDS[backend](), ones.einsum("...b | c => c"))
    check_equal(total, rounded(np.full(3, 375.0), dtype))


@pytest.mark.sampled(6)
@ALL
@EVERYWHERE
@pytest.mark.parametrize("sizes", [(5, 7, 3), (64, 96, 80)])
def test_products(dtype: Any, backend: str, sizes: tuple[int, int, int]):
    rows, columns, depth = sizes
    rng = np.random.default_rng(0)
    x = rounded(rng.standard_normal((rows, depth)) / 2, dtype)
    w = rounded(rng.standard_normal((columns, depth)) / 2, dtype)
    (found,) = values(BACKENDS[backend](), oc.data(w, axes="oi") @ oc.data(x, axes="bo"))
    expected = wide(x).astype(np.float64) @ wide(w).T.astype(np.float64)
    assert found.dtype == dtype
    error = np.abs(wide(found) - expected)
    assert np.all(error <= EPSILON[dtype] / 2 * np.abs(expected) * 1.01 + 1e-3)


def test_common_types():
    f32, f64 = oc.float32, oc.float64
    cases = [
        (oc.bfloat16, oc.bfloat16, oc.bfloat16),
        (oc.bfloat16, f32, f32),
        (oc.float16, oc.bfloat16, f32),
        (oc.float8_e5m2, oc.float8_e4m3fn, f32),
        (oc.float8_e5m2, oc.float16, f32),
        (oc.float16, f64, f64),
        (oc.bfloat16, np.int64, oc.bfloat16),
    ]
    for left, right, common in cases:
        x, y = oc.data(np.array([1.5, 2]).astype(left)), oc.data(np.array([2, 3]).astype(right))
        found = oc.Context.cpu()[x * y]
        assert found.dtype == np.dtype(common)
        np.testing.assert_array_equal(wide(found), [3, 6])


@ALL
def test_numbers_are_not_rounded(dtype: Any):
    x = rounded(np.linspace(-2, 2, 50), dtype)
    check_equal(oc.Context.cpu()[oc.data(x) * 0.3], rounded(wide(x) * np.float32(0.3), dtype))


@ALL
def test_what_is_read_once_is_not_rounded(dtype: Any):
    x = rounded(np.linspace(-2, 2, 50), dtype)
    product = wide(x) * np.float32(0.3)
    check_equal(oc.Context.cpu()[oc.data(x) * 0.3 + 0.1], rounded(product + np.float32(0.1), dtype))
    shared = oc.data(x) * 0.3
    product = wide(rounded(product, dtype))
    expected = rounded((product + np.float32(0.1)) * product, dtype)
    check_equal(oc.Context.cpu()[(shared + 0.1) * shared], expected)


@HALVES
def test_positions_are_exact(dtype: Any):
    at = oc.range(3000)
    ones = oc.data(np.ones(3000, dtype))
    (found, ids) = values(oc.Context.cpu(), oc.eq(at % 2, 1) * ones, at)
    np.testing.assert_array_equal(wide(found), np.arange(3000) % 2)
    assert ids.dtype == np.int32


class TestCast:
    @ALL
    def test_rounds(self, dtype: Any):
        x = np.linspace(-600, 600, 999).astype(np.float32)
        found = oc.Context.cpu()[oc.cast(oc.data(x), dtype)]
        assert found.dtype == dtype
        check_equal(found, rounded(x, dtype))

    @ALL
    def test_back(self, dtype: Any):
        x = rounded(np.linspace(-3, 3, 40), dtype)
        for target in (oc.float32, oc.float64):
            found = oc.Context.cpu()[oc.cast(oc.data(x), target)]
            assert found.dtype == target
            np.testing.assert_array_equal(found, wide(x))

    def test_by_name(self):
        assert oc.Context.cpu()[oc.cast(oc.data([1.0]), "bfloat16")].dtype == oc.bfloat16

    @HALVES
    def test_rounds_on_the_way(self, dtype: Any):
        """Two casts are not none, wherever the values are computed."""
        x = np.linspace(1, 2, 333).astype(np.float32)
        y = oc.cast(oc.cast(oc.data(x), dtype), oc.float32) * 1
        np.testing.assert_array_equal(oc.Context.cpu()[y], wide(rounded(x, dtype)))

    @HALVES
    def test_gradient_has_the_types_of_the_tensors(self, dtype: Any):
        w = oc.param("w", 1.0, output=4, dtype=oc.float32)
        half = oc.cast(w, dtype)
        loss = (half * half * 3).einsum("... | ... => 0")
        ctx = oc.Context.cpu()
        step = ctx.compile(train.grad_update(loss))
        ctx.init_params(loss)
        ctx[w] = [0.1, 1, 2, 3]
        step()
        assert ctx[w.grad].dtype == np.float32
        np.testing.assert_allclose(ctx[w.grad], 6 * ctx[w], rtol=EPSILON[dtype])


class TestMemory:
    @ALL
    def test_it_is_written_and_read(self, dtype: Any):
        x = oc.data(np.zeros((2, 3), dtype), label="x")
        ctx = oc.Context.cpu()
        for array in (np.full((2, 3), 0.3), rounded(np.full((2, 3), 0.3), dtype), np.ones((2, 3), int)):
            ctx[x] = array
            check_equal(ctx[x], rounded(array, dtype))
        ctx[x] = 0.5
        assert float(ctx[x][0, 0]) == 0.5

    @ALL
    def test_nodes_and_params(self, dtype: Any):
        p, n = oc.param("p", [0.5, 1.5], dtype=dtype), oc.node("n", output=2, dtype=dtype, init=0.25)
        with oc.code("add") as code:
            n += p
        ctx = oc.Context.cpu()
        ctx.init_params(p)
        ctx.compile(code)()
        assert ctx[p].dtype == ctx[n].dtype == dtype
        np.testing.assert_array_equal(wide(ctx[n]), [0.75, 1.75])

    def test_scalars_stand_in_expressions(self):
        three: Any = oc.bfloat16(3)
        found = oc.Context.cpu()[oc.data(np.ones(2, oc.bfloat16)) * three]
        np.testing.assert_array_equal(wide(found), [3, 3])

    def test_a_loop_records_them(self):
        i = oc.index("i", 4)
        x = oc.data(np.arange(4).astype(oc.bfloat16)[:, None], label="x")
        total = (x[i] * 2).einsum("... | ... => 0").named("total")
        step = oc.Context.cpu().compile(oc.forward(total))
        found = step.run_loop(record=[total])[total]
        assert found.dtype == oc.bfloat16
        np.testing.assert_array_equal(wide(found).ravel(), [0, 2, 4, 6])


class TestInitializers:
    @ALL
    @pytest.mark.parametrize(
        "init",
        [
            None,
            oc.init.uniform(-1, 1),
            oc.init.normal(),
            oc.init.kaiming(),
            oc.init.xavier(),
            oc.init.constant(0.3),
        ],
        ids=str,
    )
    def test_they_are_those_of_f32_and_rounded(self, dtype: Any, init: oc.init.Initializer | None):
        def sample(of: Any) -> Array:
            w = oc.param("w", init, input=8, output=16, dtype=of)
            ctx = oc.Context.cpu()
            ctx.init_params(w)
            return ctx[w]

        check_equal(sample(dtype), rounded(sample(oc.float32), dtype))


class TestRandomNumbers:
    @ALL
    @CPU_AND_GPU
    def test_uniform_ones_are_the_upper_bits(self, dtype: Any, backend: str):
        n = oc.index("n")
        small, single = (oc.uniform(n, output=2000, key="k", dtype=of) for of in (dtype, oc.float32))
        found, exact = values(BACKENDS[backend](), small, single, n=3)
        assert found.dtype == dtype
        assert wide(found).max() < 1
        scale = 2 / EPSILON[dtype]
        np.testing.assert_array_equal(wide(found), np.floor(exact * scale) / scale)

    @HALVES
    def test_others_are_computed_in_f32(self, dtype: Any):
        made = [
            (
                oc.normal(7, output=500, key="k", dtype=of),
                oc.uniform(7, low=-2, output=500, key="u", dtype=of),
            )
            for of in (dtype, oc.float32)
        ]
        small, single = ([*values(oc.Context.cpu(), *tensors)] for tensors in made)
        for found, exact in zip(small, single, strict=True):
            check_equal(found, rounded(exact, dtype))

    @HALVES
    def test_dropout_keeps_the_type(self, dtype: Any):
        x = oc.data(np.ones((64, 32), dtype))
        (found,) = values(oc.Context.cpu(), nn.dropout(rate=0.5)(x, train_step=oc.index("n")), n=0)
        assert found.dtype == dtype
        assert set(np.unique(wide(found))) == {0, 2}


class TestIndexing:
    ids = np.array([1, 0, 1, 1, 4, 1])

    @ALL
    @CPU_AND_GPU
    def test_gather_and_its_gradient(self, dtype: Any, backend: str):
        """The gradient of a row that is read often is summed in f32."""
        ids = np.resize(self.ids, 600)
        embedding = nn.embedding(num=5, dim=3)
        table = rounded(np.random.default_rng(0).standard_normal((5, 3)), dtype)
        weights = oc.data(np.full((600, 3), 0.25, dtype))
        rows = embedding(oc.data(ids, axes="b"))
        loss = (rows * weights).einsum("... | ... => 0")
        (w,) = oc.params(loss).values()
        ctx = BACKENDS[backend]()
        step = ctx.compile(train.grad_update(loss) + oc.forward(rows))
        ctx.init_params(loss)
        ctx[w] = table.reshape(ctx[w].shape) if ctx[w].shape == table.shape else table.T
        step()
        assert ctx[rows].dtype == ctx[w.grad].dtype == dtype
        check_equal(ctx[rows], table[ids])
        gradient = ctx[w.grad] if ctx[w].shape == table.shape else ctx[w.grad].T
        counts = np.bincount(ids, minlength=5)[:, None] * np.full(3, 0.25)
        check_equal(gradient, rounded(counts, dtype))


@ALL
@CPU_AND_GPU
def test_overlapping_windows_are_summed_in_f32(dtype: Any, backend: str):
    """The gradient of a convolution's input adds to the same cells again and again."""
    x = oc.param("x", 1.0, batch=40, output=1, dtype=dtype)
    kernel = oc.data(np.full(9, 0.3, dtype))
    y = oc.einsum("o + k | c; k => o | c", x, kernel)
    loss = y.einsum("... | ... => 0")
    ctx = BACKENDS[backend]()
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    step()
    counts = np.minimum(np.minimum(np.arange(1, 41), np.arange(40, 0, -1)), 9)
    value = float(rounded(np.array(0.3), dtype))
    check_equal(ctx[x.grad].ravel(), rounded(counts * np.float32(value), dtype))


@ALL
@CPU_AND_GPU
def test_maximum_over_padded_windows(dtype: Any, backend: str):
    """There is an infinity to start from, also where the type has none."""
    x = rounded(-np.arange(1.0, 9)[:, None], dtype)
    y = oc.einmax("o + k | c => o | c", oc.data(x), k=3, use_padding=True)
    (found,) = values(BACKENDS[backend](), y)
    padded = np.array([-np.inf, *wide(x).ravel(), -np.inf])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3)
    np.testing.assert_array_equal(wide(found).ravel(), windows.max(1))


class TestErrors:
    @pytest.mark.parametrize("dtype", ["bfloat17", "float8_e3m4", "complex64", "uint64"])
    def test_a_type_that_no_target_stores(self, dtype: str):
        for make in (
            lambda: oc.data([1.0], dtype=dtype),
            lambda: oc.param("p", 0.0, output=1, dtype=dtype),
            lambda: oc.cast(oc.constant(1.0), dtype),
            lambda: oc.node("n", output=1, dtype=dtype),
            lambda: oc.uniform(0, output=1, dtype=dtype),
        ):
            with pytest.raises(OcannlError, match=rf"{dtype}.*; use one of float8_e4m3fn, .*float64, bool"):
                make()


@ALL
def test_copies_of_operands_are_widened_once(dtype: Any):
    """A product of matrices reads its operands again and again, where no matrix unit takes small ones."""
    x = np.ones((128, 128), dtype)
    product = oc.data(x, axes="oi") @ oc.data(x, axes="bo")
    text = product.ir("loops", target="x86-64-v4").splitlines()
    (packed, *_) = [line for line in text if '.packed" local' in line]
    assert packed.endswith("xf32>")


def test_extremes_of_floats_without_infinities():
    """Where nothing is accumulated, a maximum has the least number of the type, for there is no infinity."""
    numbers, least = np.array([1, -2, 3, -4, 2, 2, -1, 0], np.float32), -448.0
    x = oc.data(numbers.astype(oc.float8_e4m3fn), label="x")
    ids = oc.data([0, 1, 1, 0, 0, 1, 0, 1], axes="b")
    nothing = oc.data(numbers.astype(oc.float8_e4m3fn), axes="b")
    put = np.array([5, 5, *numbers[2:]])
    expected = {
        oc.cummax(x): np.maximum.accumulate(numbers),
        oc.cummin(x): np.minimum.accumulate(numbers),
        oc.einmax("a => 2^a^1", x): [least, least, *numbers, least],
        oc.einmin("a => 2*a", x): np.stack([numbers, 0 * numbers - least], 1).ravel(),
        oc.einmax("a; b => a + b", x, oc.data(numbers[:1].astype(oc.float8_e4m3fn))): numbers,
        oc.scatter("b |; b | => v", nothing, ids, at="v", v=3, accum="max"): [2, 3, least],
        oc.put_along_axis(x, oc.data([0, 1]), 5.0, accum="max"): put,
    }
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum((value.forward for value in expected), start=oc.forward(x)))()
    for value, numbers_there in expected.items():
        found = ctx[value]
        assert found.dtype == oc.float8_e4m3fn
        np.testing.assert_array_equal(found.astype(np.float32), numbers_there)
