"""Integers and truth values: every operator on every pair of dtypes, against NumPy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray
from support.operators import function
from support.targets import functions
from support.targets.columns import COLUMNS, PROCESSORS

import ocannl as oc
from ocannl import nn
from ocannl.dialects.scalar import SCALAR_OPS, ScalarOp, accumulators
from ocannl.dialects.scalar.kinds import TRUTHS, Kind
from ocannl.program.tensor import by_spec

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64")
# JAX's table with 64 bits, where two truth values are added as int32.
PROMOTED = {
    "bool": ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
    "int8": ("int8", "int8", "int16", "int16", "int32", "int32", "int64", "int64"),
    "uint8": ("uint8", "int16", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
    "int16": ("int16", "int16", "int16", "int16", "int32", "int32", "int64", "int64"),
    "uint16": ("uint16", "int32", "uint16", "int32", "uint16", "int32", "uint32", "int64"),
    "int32": ("int32", "int32", "int32", "int32", "int32", "int32", "int64", "int64"),
    "uint32": ("uint32", "int64", "uint32", "int64", "uint32", "int64", "uint32", "int64"),
    "int64": ("int64", "int64", "int64", "int64", "int64", "int64", "int64", "int64"),
}
MLIR = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "ui8",
    "int16": "i16",
    "uint16": "ui16",
    "int32": "i32",
    "uint32": "ui32",
    "int64": "i64",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
ROUNDING = ("floor", "ceil", "round", "id", "fst", "snd")
FAST_PAIRS = [("uint8", "uint8"), *((x, INTEGERS[(3 * k + 1) % 8]) for k, x in enumerate(INTEGERS))]
PAIRS = [*itertools.product(INTEGERS, INTEGERS)]


def common(x: str, y: str) -> str:
    return PROMOTED[x][INTEGERS.index(y)]


def special(dtype: str) -> Array:
    """Extremes, zero, and numbers that are too many bits to shift by, or divide the extremes."""
    if dtype == "bool":
        return np.array([False, True])
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 5, 7, 31, 33, 64, 100, -1, -2, -3, -7, -64, info.max, info.max - 1, info.min]
    return np.array([v for v in values if info.min <= v <= info.max], dtype)


def power(x: Array, y: Array) -> Array:
    """That of negative powers is 1 / x**-y towards 0, and 0 for x = 0."""
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0))).astype(x.dtype)


def reference(op: ScalarOp, args: list[Array], dtype: str) -> Array:
    """In the common type of the operands."""
    if op.kind is Kind.LOGIC:
        return op.reference(*args)
    if op.kind is Kind.FLOAT:
        return op.reference(*[a.astype("float64" if dtype == "int64" else "float32") for a in args])
    if op.name == "where":
        condition, *chosen = args
        return op.reference(condition, *[a.astype(dtype) for a in chosen])
    counted = "int32" if dtype == "bool" and op.kind in (Kind.ARITHMETIC, Kind.SHIFT) else dtype
    operands = [a.astype(counted) for a in args]
    if op.name == "pow":
        return power(*operands)
    if op.name in ROUNDING:
        return operands[op.name == "snd"]
    result = op.reference(*operands)
    return result if op.kind in TRUTHS else result.astype(counted)


def computed(tensors: Mapping[str, oc.Tensor], backend: str = "cpu") -> Mapping[str, Array]:
    """The values of tensors, by one routine."""
    if backend in COLUMNS:
        with COLUMNS[backend].running() as ctx:
            return functions.computed(ctx, tensors)
    return functions.computed(oc.Context(backend, threads=1), tensors)


def check_pair(x: str, y: str, backend: str = "cpu") -> None:
    """Every operator on two dtypes at all pairs of special values; a third operand has the first one's."""
    a, b = np.meshgrid(special(x), special(y))
    arrays = [a, b, np.roll(a, 1)]
    tensors = [oc.data(array) for array in arrays]
    names = [name for name, op in SCALAR_OPS.items() if op.arity > 1 or x == y]
    results = {name: function(name)(*tensors[: SCALAR_OPS[name].arity]) for name in names}
    values = computed(results, backend)
    for name, found in values.items():
        op = SCALAR_OPS[name]
        dtype = common(x, y) if op.arity > 1 else x
        wanted = reference(op, arrays[: op.arity], common(dtype, y) if name == "where" else dtype)
        assert found.dtype == wanted.dtype, name
        rtol = 4 * np.finfo(wanted.dtype).eps if wanted.dtype.kind == "f" else 0
        np.testing.assert_allclose(found, wanted, rtol=rtol, err_msg=name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("x", "y"), FAST_PAIRS)
def test_operators_on_two_dtypes(x: str, y: str):
    check_pair(x, y)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_operators_on_all_dtypes(x: str, y: str):
    check_pair(x, y)


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["emulated_gpu", "metal", *PROCESSORS])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_operators_on_other_targets(dtype: str, backend: str):
    if backend == "metal" and dtype == "int64":
        pytest.skip("Metal has no f64, in which functions of int64 are computed")
    check_pair(dtype, dtype, backend)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", PROCESSORS)
def test_operators_on_other_processors(backend: str):
    check_pair("int8", "uint16", backend)


def element(found: str) -> str:
    return re.split(r"[<, ]", found.rstrip(">"))[-1]


@pytest.mark.exhaustive
def test_promotion_of_all_pairs():
    """Sums have the common type, comparisons are truth values, quotients of integers f32, or f64 of int64."""
    wanted: list[str] = []
    code = oc.Code()
    leaves = {name: oc.data(np.ones(1, getattr(oc, name, name)), label=name) for name in (*INTEGERS, *FLOATS)}
    for x, y in itertools.product(leaves, leaves):
        both = {x, y}
        if both <= set(INTEGERS):
            type = common(x, y)
            added = "int32" if type == "bool" else type
            divided = "float64" if type == "int64" else "float32"
        elif len(both & set(FLOATS)) == 1:
            (added,) = (divided,) = both & set(FLOATS)
        else:
            added = divided = "float64" if "float64" in both else "float32"
        a, b = leaves[x], leaves[y]
        code += (a + b).forward + (a < b).forward + (a / b).forward
        wanted += [MLIR[added], "i1", MLIR[divided]]
    found = re.findall(r"texpr.apply = .* : !texpr.tensor<(.*)>", code.ir("infer-precisions"))
    assert [element(text) for text in found] == wanted


@pytest.mark.parametrize("dtype", INTEGERS)
def test_python_numbers_are_weak(dtype: str):
    x, ctx = oc.data(special(dtype)), oc.Context.cpu(threads=1)
    a = special(dtype)
    whole = "int32" if dtype == "bool" else dtype
    for found, wanted in (
        (ctx[x * 2], a.astype(whole) * np.array(2, whole)),
        (ctx[3 - x], np.array(3, whole) - a.astype(whole)),
        (ctx[x * 0.5], a.astype(np.float32) * np.float32(0.5)),
        (ctx[x & 1], a.astype(whole) & np.array(1, whole)),
        (ctx[oc.where(x > 1, x, 1)], np.where(a > 1, a.astype(whole), np.array(1, whole))),
    ):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("backend", ["cpu", "emulated_gpu", "metal"])
def test_accumulations(dtype: str, backend: str):
    rng = np.random.default_rng(3)
    a = rng.choice(special(dtype), (3, 70))
    x = oc.data(a)
    results = {op.name: by_spec("...b | o => b |", op.name, "mul", [x], {}) for op in accumulators()}
    values = computed(results, backend)
    counted = a.astype("int32") if dtype == "bool" else a
    wanted = {
        "add": np.add.reduce(counted, 1, dtype=counted.dtype),
        "mul": np.multiply.reduce(counted, 1, dtype=counted.dtype),
        "max": a.max(1),
        "min": a.min(1),
        "or": a.any(1),
        "and": a.all(1),
    }
    for name, found in values.items():
        assert found.dtype == wanted[name].dtype
        np.testing.assert_array_equal(found, wanted[name], err_msg=name)


def test_products_of_matrices_wrap_around():
    rng = np.random.default_rng(5)
    for dtype in ("int8", "int32", "int64", "uint32"):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, size, dtype) for size in ((20, 30), (30, 17)))
        x, y = oc.data(a, axes="oi"), oc.data(b, axes="oi")
        found = oc.Context.cpu(threads=1)[x @ y]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, a @ b)


@cache
def numbers(dtype: str) -> Array:
    if dtype in INTEGERS:
        return special(dtype)
    values = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 100.7, -100.7, np.nan, np.inf, -np.inf, 1e9, -1e9, 1e20, -1e20]
    return np.array(values).astype(getattr(oc, dtype))


def cast(a: Array, dtype: str) -> Array:
    """NumPy's, but that what does not fit is the nearest integer, and NaN 0."""
    if a.dtype.kind in "biu" or dtype not in INTEGERS or dtype == "bool":
        return a.astype(getattr(oc, dtype, dtype))
    info, whole = np.iinfo(dtype), np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0)
    least, most = float(info.min), float(info.max)
    inside = np.where((whole > least) & (whole < most), whole, 0).astype(dtype)
    return np.where(whole >= most, info.max, np.where(whole <= least, info.min, inside)).astype(dtype)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
def test_sums_of_products_of_bytes_of_any_length(left: DTypeLike, right: DTypeLike):
    """Processors have instructions for some lengths, of which LLVM takes 16 for one."""
    rng = np.random.default_rng(3)
    cases: list[tuple[oc.Tensor, Array]] = []
    for size in (*range(1, 20), 31, 32, 33, 48, 63, 64, 65, 128):
        pair: list[Array] = []
        for dtype, shape in ((left, (3, size)), (right, (size,))):
            kind: np.dtype[Any] = np.dtype(dtype)
            bounds = np.iinfo(kind)
            pair.append(rng.integers(bounds.min, bounds.max, shape, kind, endpoint=True))
        x, w = (oc.cast(oc.data(array, axes="o" * array.ndim), np.int32) for array in pair)
        wanted = pair[0].astype(np.int32) @ pair[1].astype(np.int32)
        cases += [
            (oc.einsum("m, k; k, => m,", x, w), wanted),
            (oc.einsum("k, ; k, => 0,", x[0], w), wanted[:1]),
        ]
    ctx = oc.Context.cpu(1)
    with oc.code("products") as code:
        for found, _ in cases:
            oc.run(oc.forward(found))
    ctx.compile(code)()
    for found, wanted in cases:
        np.testing.assert_array_equal(ctx[found], wanted)


@pytest.mark.parametrize("source", [*INTEGERS, "float16", "float32", "float64"])
def test_casts(source: str):
    a = numbers(source)
    x, targets = oc.data(a), (*INTEGERS, "float16", "float32", "float64")
    results = {target: oc.cast(x, target) for target in targets}
    for target, found in computed(results).items():
        assert found.dtype == target
        np.testing.assert_array_equal(found, cast(a, target), err_msg=target)


def test_tables_of_integers_are_gathered_and_scattered():
    table, ids = np.array([2**53 + 1, -(2**62), 7, 2**31]), np.array([3, 0, 0, 9, -1], np.int8)
    ctx = oc.Context.cpu(threads=1)
    found = ctx[oc.gather("v; b => b", oc.data(table), oc.data(ids), at="v", out_of_range="drop")]
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [2**31, 2**53 + 1, 2**53 + 1, 0, 0])
    values = np.array([5, -100, 3, 4, 4], np.int8)
    for accum, wanted in (("add", [-97, 0, 0, 5]), ("max", [3, -128, -128, 5]), ("min", [-100, 127, 127, 5])):
        scattered = oc.scatter(
            "b; b => v", oc.data(values), oc.data(ids), at="v", v=4, accum=accum, out_of_range="drop"
        )
        assert ctx[scattered].dtype == np.int8
        np.testing.assert_array_equal(ctx[scattered], wanted)


def test_comparisons_are_exact_and_take_a_byte():
    a, b = np.array([2**53, 2**53 + 1, -1]), np.array([2**53 + 1, 2**53 + 1, 2**32 - 1])
    ctx = oc.Context.cpu(threads=1)
    found = ctx[oc.eq(oc.data(a), oc.data(b))]
    assert found.dtype == np.bool_
    assert found.tolist() == [False, True, False]
    assert ctx[
        oc.lt(oc.data(np.array([-1], np.int8)), oc.data(np.array([2**32 - 1], np.uint32)))
    ].tolist() == [True]


def test_truth_values_select_and_count_in_floats():
    a = np.linspace(-1, 1, 37, dtype=np.float32)
    w = oc.param("w", a)
    mask = w > 0.25
    loss = ((mask * w + (1 - mask) * w * w) * 2).einsum("... | ... => 0")
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(loss)
    (gradient,) = oc.grad(loss, [w])
    np.testing.assert_allclose(ctx[gradient], np.where(a > 0.25, 2, 4 * a), rtol=1e-6)
    mean = mask.einsum("... | ... => 0") / 37
    assert ctx[mean].dtype == np.float32
    np.testing.assert_allclose(ctx[mean], np.mean(a > 0.25), rtol=1e-6)


def test_gradients_stop_at_integers():
    w = oc.param("w", np.array([1.5, 2.5], np.float32))
    loss = (w * oc.cast(w, np.int32) * oc.cast(3 * w, np.int8)).einsum("... | ... => 0")
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(loss)
    (gradient,) = oc.grad(loss, [w])
    np.testing.assert_array_equal(ctx[gradient], [4, 14])


def test_positions_are_whole_numbers():
    at, ctx = oc.range(7), oc.Context.cpu(threads=1)
    assert ctx[at].dtype == np.int32
    assert ctx[at // 2 + at % 2].tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert [ctx[part].tolist() for part in divmod(at, 4)] == [[0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2]]
    assert [ctx[part].tolist() for part in divmod(7, at + 1)][1] == [0, 1, 1, 3, 2, 1, 0]
    assert ctx[oc.eq(at & 1, 0)].tolist() == [True, False] * 3 + [True]
    assert ctx[at / 2].dtype == np.float32
    assert ctx[oc.constant(11) ** 7].tolist() == 11**7
    assert ctx[oc.constant(2**40) + 1].tolist() == 2**40 + 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("x", [np.arange(4.0), np.arange(4), np.arange(4, dtype=np.int8)], ids=str)
def test_choices_between_whole_numbers_are_whole(x: Array):
    """As in JAX, and floats where floats are computed from them."""
    few, ctx = oc.data(x, label="x") < 2, oc.Context.cpu(threads=1)
    chosen = oc.where(few, 4, 2)
    for found, wanted in ((chosen, [4, 4, 2, 2]), (chosen + 1, [5, 5, 3, 3]), (chosen.sum(), 12)):
        assert ctx[found].dtype == np.int32
        assert ctx[found].tolist() == wanted
    assert ctx[oc.where(few, 4, 2) * oc.data(x)].dtype == x.dtype
    assert ctx[oc.where(few, 4, 2) / 2].dtype == np.float32
    assert ctx[oc.where(few, 4.0, 2)].dtype == np.float32


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: oc.data([1.5]) & 1, "`bitwise_and` is of integers and truth values, found f32"),
        (
            lambda: ~oc.data(np.array([1.5], np.float16)),
            "`bitwise_not` is of integers and truth values, found f16",
        ),
        (lambda: oc.param("w", output=3) << 1, "`left_shift` is of integers and truth values, found f32"),
        (lambda: oc.data(np.array([1], np.uint8)) + 300, "300 is no number of type ui8"),
        (lambda: oc.data(np.array([1], np.uint8)) - (-1), "-1 is no number of type ui8"),
    ],
)
def test_what_a_type_lacks_is_an_error(build: Any, words: str):
    with pytest.raises(oc.PrecisionError, match=rf"^{re.escape(__file__)}:\d+: .*{re.escape(words)}"):
        oc.Context.cpu().compile(build().forward)


@pytest.mark.parametrize(
    "dtype", [np.uint8, *(pytest.param(d, marks=pytest.mark.exhaustive) for d in (np.int8, np.int32))]
)
def test_means_and_squares_of_integers_do_not_wrap_around(dtype: Any):
    factor = 5_000_000 if dtype == np.int32 else 1
    numbers = np.random.default_rng(1).integers(100, 127, (2, 4, 4, 6)) * factor
    ids = np.zeros((2, 4, 4, 6), np.int32)

    def found(array: Any) -> list[oc.Tensor]:
        x = oc.data(array, axes="bbbo")
        other = oc.data(array[:, ::-1], axes="bbbo")
        return [
            x.mean(),
            (x + 0).mean("batch"),
            x.var(-1),
            x.std(),
            oc.reduce(x, "b h w c -> b c", "mean"),
            oc.put_along_axis(x, oc.data(ids, axes="bbbo"), other, accum="mean"),
            oc.norm(x),
            oc.norm(x, None, ord=3),
            nn.avg_pool2d()(x),
            nn.global_avg_pool2d(x),
            nn.batch_norm2d()(x, train_step=0),
            nn.layer_norm()(x),
            nn.rms_norm()(x),
            nn.group_norm(num_groups=2)(x),
            nn.mse(x, other),
            nn.l1(x, other),
            nn.huber(x, other, delta=3.0),
            nn.cosine_similarity(x, other),
            nn.r2(x, other),
        ]

    ctx = oc.Context.cpu()
    tensors = [*found(numbers.astype(dtype)), *found(numbers.astype(np.float64))]
    code = sum((oc.forward(t) for t in tensors), oc.Code())
    ctx.init_params(code)
    ctx.compile(code)()
    half = len(tensors) // 2
    for mine, wanted in zip(tensors[:half], tensors[half:], strict=True):
        np.testing.assert_allclose(ctx[mine], ctx[wanted], rtol=1e-4, atol=1e-3)
        assert ctx[mine].dtype == np.float32
