"""Parts of memory at positions that are values, written by code, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.metal_on_cpu import COMPILER, FakeDevice, install_metal

import ocannl as oc

Array = NDArray[Any]
RNG = np.random.default_rng(0)
SHAPE = (4, 5, 3)
ROWS, COLUMNS, TWICE = np.array([0, 3, 1]), np.array([4, 0, 4]), np.array([1, 1, 1])
KEYS: list[Any] = [
    (ROWS,),
    (TWICE,),
    (ROWS, COLUMNS),
    (slice(None), COLUMNS),
    (np.array(2),),
    (np.array(2), COLUMNS),
    (1, COLUMNS),
    (ROWS, slice(1, 4)),
    (slice(None), slice(None), np.array([[0, 2], [2, 1]])),
    (..., np.array([2, 0])),
    (ROWS[:, None], COLUMNS),
    (ROWS[:1], COLUMNS[:, None], np.array([0, 2])),
    (slice(None), COLUMNS[None], np.array([[1], [1]])),
    (1, COLUMNS[:, None], np.array(2)),
]
UFUNCS: dict[str, np.ufunc] = {"add": np.add, "max": np.maximum, "mul": np.multiply}


def tensors(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key with tensors in place of arrays."""
    return tuple(oc.data(k, axes="o" * k.ndim) if isinstance(k, np.ndarray) else k for k in key)


def memory(ctx: oc.Context, contents: Array) -> oc.Tensor:
    m = oc.node("m", output=[*contents.shape], init=0.0, dtype=contents.dtype)
    ctx[m] = contents
    return m


def written(ctx: oc.Context, how: str, key: Any, start: Array, values: Array) -> Array:
    """Memory after a write of values at a key of tensors."""
    m, v = memory(ctx, start), oc.data(values, axes="o" * values.ndim)
    with oc.code("write") as code:
        if how == "set":
            m[tensors(key)] = v
        elif how == "update":
            m[tensors(key)] += v
        else:
            oc.accumulate(m.at[tensors(key)], how, v)
    ctx.compile(code)()
    return ctx[m]


def expected(how: str, key: Any, start: Array, values: Array) -> Array:
    wanted = start.copy()
    if how == "set":
        wanted[key] = values
    elif how == "update":
        wanted[key] += values
    else:
        UFUNCS[how].at(wanted, key, values)
    return wanted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["set", "update", "add", "max"])
def test_writes_are_those_of_numpy(how: str):
    """In NumPy too the last of several values for one cell is set, and `ufunc.at` accumulates all."""
    ctx = oc.Context.cpu(1)
    for key in KEYS:
        start = RNG.normal(size=SHAPE)
        values = RNG.normal(size=start[key].shape)
        found = written(ctx, how, key, start, values)
        np.testing.assert_allclose(found, expected(how, key, start, values), rtol=1e-14, err_msg=str(key))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.bool_])
def test_element_types(dtype: type[np.generic]):
    """Values are broadcast to the part, and stored in the memory's type."""
    ctx = oc.Context.cpu(1)
    start, values = (RNG.integers(0, 2, size).astype(dtype) for size in (SHAPE, (3,)))
    np.testing.assert_array_equal(written(ctx, "set", (ROWS,), start, values)[ROWS], [[values] * 5] * 3)
    if dtype is not np.bool_:
        found = written(ctx, "add", (TWICE,), start, values)
        np.testing.assert_array_equal(found, expected("add", (TWICE,), start, values))


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["emulated_gpu", "metal"])
def test_gpus(backend: str, monkeypatch: pytest.MonkeyPatch):
    """Points that write one cell run in turn there too."""
    if backend == "metal":
        if COMPILER is None:
            pytest.skip("there is no C++ compiler: install clang or g++")
        install_metal(monkeypatch, FakeDevice())
        monkeypatch.setenv("OCANNL_CACHE", "off")
    ctx = oc.Context.emulated_gpu(check=True) if backend == "emulated_gpu" else oc.Context.metal()
    start = RNG.normal(size=SHAPE).astype(np.float32)
    values = RNG.normal(size=(3, 5, 3)).astype(np.float32)
    for how, key in (("set", (TWICE,)), ("add", (TWICE,)), ("set", (ROWS,))):
        found = written(ctx, how, key, start, values)
        np.testing.assert_allclose(found, expected(how, key, start, values), rtol=1e-6)


def test_a_position_outside_raises_and_writes_nothing():
    ctx = oc.Context.cpu(1)
    m = memory(ctx, np.zeros(5))
    ids = oc.data(np.array([1, 7, -1]), axes="o", label="ids")
    with oc.code("write") as code:
        m[ids] = 1.0
    with pytest.raises(oc.OcannlError, match=r"in `m`, the id (7|-1) in `ids` is outside of 0 to 4"):
        ctx.compile(code)()
    np.testing.assert_array_equal(ctx[m], [0, 1, 0, 0, 0])


def test_ids_by_which_a_part_is_read_and_written_are_checked_once():
    m, ids = oc.node("m", output=5), oc.data(np.array([1, 3]), axes="o", label="ids")
    with oc.code("write") as code:
        m[ids] += 1.0
    assert code.ir("texpr").count("texpr.apply min=") == 1


def test_only_the_part_is_touched():
    """Whatever the size of memory, the routine has one nest, over the part."""
    m = oc.node("m", output=[10**6, 4])
    with oc.code("write") as code:
        m[oc.data(np.array([3, 5]), axes="o")] = oc.ones(4)
    text = code.ir("loops").split("loops.nest")
    assert [nest for nest in text[1:] if "%m[" in nest and "(o = 2, o1 = 4)" in nest] == text[-1:]
    assert not any("= 1000000" in nest for nest in text[1:])
    assert "assign.accum %m[at$0, o1] by (%" in code.ir("assign")


def test_positions_beside_static_indices_and_arrays():
    """`cache[i, pos] = k`, with an index that is set for each run; arrays count from the end, as in NumPy."""
    i, ctx = oc.index("i", 4), oc.Context.cpu(1)
    cache = oc.node("cache", batch=[4, 8], output=2, init=0.0)
    position, k = oc.data(np.array(5), label="pos"), oc.data(np.array([1.0, 2.0], np.float32))
    with oc.code("write") as code:
        cache[i, position] = k
        cache[3, [-1, 0]] = k
    step = ctx.compile(code)
    step(i=2)
    wanted = np.zeros((4, 8, 2))
    wanted[2, 5] = wanted[3, -1] = wanted[3, 0] = [1, 2]
    np.testing.assert_array_equal(ctx[cache], wanted)
    with oc.code("write"):
        with pytest.raises(oc.PositionError):
            cache[3, [8]] = k
        with pytest.raises(oc.ArgumentError, match="one shape"):
            cache[[0, 1], [0, 1, 2]] = k
        for key in (([0, 1], slice(None), [0, 1]), (0, slice(None), [0, 1])):
            with pytest.raises(oc.ArgumentError, match="side by side"):
                cache[key] = 1.0
        with pytest.raises(oc.ArgumentError, match="new axes"):
            cache[None] = 1.0


def test_a_cache_in_a_function():
    """A function's writes at positions stay, and are its state."""
    cache = oc.node("cache", batch=[2, 8], output=3)

    @oc.function
    def step(k: oc.Tensor, position: oc.Tensor) -> oc.Tensor:
        cache[:, position] = k
        return cache.sum("output")

    found = [step(np.full((2, 3), position + 1.0, np.float32), position) for position in range(3)]
    np.testing.assert_array_equal(found[-1], [[3, 6, 9, 0, 0, 0, 0, 0]] * 2)
    assert list(oc.state(step)) == ["cache"]


def test_one_part_of_a_concatenation_is_set():
    ctx = oc.Context.cpu(1)
    m = memory(ctx, np.zeros(5))
    for spec, values in (("a => a^b", [1.0, 2.0]), ("b => a^b", [7.0]), ("a => 2^a^b", [3.0])):
        ctx.compile(oc.accumulate(m, "set", oc.tensor(values), spec=spec))()
    np.testing.assert_array_equal(ctx[m], [1, 2, 3, 0, 7])
    with pytest.raises(oc.OcannlError, match=r"a reduction over b accumulates"):
        ctx.compile(oc.accumulate(m, "set", oc.ones((5, 2), axes="oo"), spec="a b => a"))
    with pytest.raises(oc.ArgumentError, match="no neutral element"):
        oc.accumulate(m, "set", 1.0, reset=True)


def test_padded_rows_are_not_written():
    """The ids of padded rows are not positions."""
    counts, last = oc.node("counts", output=4, init=0.0), oc.node("last", output=4, init=0.0)
    one = oc.data(np.float32(1.0))

    @oc.function(axes={"ids": "*o"})
    def count(ids: oc.Tensor) -> oc.Tensor:
        oc.accumulate(counts.at[ids], "add", one)
        last[ids] = ids + 1
        return oc.stack([counts, last], axis="output")

    found = count(np.array([1, 3, 1], np.uint8))
    np.testing.assert_array_equal(found, [[0, 2, 0, 1], [0, 2, 0, 4]])
