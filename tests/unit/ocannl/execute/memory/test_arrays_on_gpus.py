"""Arrays that another library has on a GPU: they do not pass through the host."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cuda_arrays import Library
from support.cuda_on_cpu import FakeDriver, install

import ocannl as oc
from ocannl.runtime.cuda.gpu import CudaMemory
from ocannl.train.shards import shard_along

BY_THE_HOST = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"}
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


@pytest.fixture(params=[True, False], ids=["versions", "no versions"])
def library(driver: FakeDriver, request: pytest.FixtureRequest) -> Library:
    """Another library, which has its memory from before."""
    driver.count = 2
    for number in range(2):
        driver.cuDevicePrimaryCtxRetain(number)
    return Library(driver, knows_versions=request.param)


def is_all_given_back(library: Library) -> bool:
    gc.collect()
    return library.given == len(library.returned) > 0


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_memory_is_set(driver: FakeDriver, library: Library, dtype: type[np.generic]):
    """After what the other library still does; bf16, which the array interface has not, too."""
    ctx, y = oc.Context.cuda(), oc.node("y", batch=2, output=3, dtype=dtype)
    array = library.array(VALUES.astype(dtype))
    driver.calls.clear()
    ctx[y] = array
    del array
    assert BY_THE_HOST.isdisjoint(driver.calls)
    assert "cuCtxSynchronize" not in driver.calls
    assert is_all_given_back(library)
    np.testing.assert_array_equal(ctx[y], VALUES.astype(dtype))


def test_what_is_converted_passes_through_the_host(driver: FakeDriver, library: Library):
    """So does what is on another GPU."""
    ctx, y = oc.Context.cuda(), oc.node("y", batch=2, output=3)
    for array in (library.array(VALUES.astype(np.float64)), library.array(VALUES + 1, number=1)):
        driver.calls.clear()
        ctx[y] = array
        assert "cuMemcpyHtoDAsync" in driver.calls
        np.testing.assert_array_equal(ctx[y], array.cpu())
    ctx[y.at[1, 1:]] = library.array(VALUES[0, :2] + 30)
    np.testing.assert_array_equal(ctx[y], [[1, 2, 3], [4, 30, 31]])
    with pytest.raises(oc.ShapeError, match=r"takes an array of shape \(2, 3\), found \(3, 2\)"):
        ctx[y] = library.array(VALUES.reshape(3, 2))
    assert library.given == len(library.returned)


@pytest.mark.sampled(3)
def test_data_stay_there(driver: FakeDriver, library: Library):
    """As what they were then: the other library may write its array again, and drop it."""
    array = library.array(VALUES)
    driver.calls.clear()
    x = oc.data(array, axes="bo", label="x")
    assert is_all_given_back(library)
    driver.memory[int(array.address)].view(np.float32)[:] = 7
    assert str(x) == "<x: 2|3, f32>"
    ctx = oc.Context.cuda()
    y = (2 * x).named("y")
    ctx.compile(oc.forward(y), name="step")()
    assert BY_THE_HOST.isdisjoint(driver.calls)
    np.testing.assert_array_equal(ctx[y], 2 * VALUES)
    np.testing.assert_array_equal(ctx[x], VALUES)


def test_data_elsewhere(driver: FakeDriver, library: Library):
    """Contexts of the CPU and of another GPU have copies, by way of the host."""
    x = oc.data(library.array(VALUES, number=1), label="x")
    for ctx in (oc.Context.cpu(threads=1), oc.Context.cuda(0), oc.Context.cuda(1)):
        np.testing.assert_array_equal(ctx[x + 1], VALUES + 1)
    parts = shard_along(x, 2)
    np.testing.assert_array_equal(oc.Context.cpu(threads=1)[parts[1]], VALUES[1:])
    flat = oc.data(library.array(VALUES), flat=True, label="flat")
    np.testing.assert_array_equal(oc.Context.cuda()[flat + oc.data(VALUES)], 2 * VALUES)


def test_data_that_are_converted(driver: FakeDriver, library: Library):
    halves = oc.data(library.array(VALUES), dtype=np.float16)
    assert isinstance(halves.ir_value.array, np.ndarray)
    same = oc.data(library.array(VALUES), dtype=np.float32)
    assert isinstance(same.ir_value.array, CudaMemory)
    wide = oc.data(library.array(VALUES.astype(np.uint64)))
    for data in (halves, same, wide):
        np.testing.assert_array_equal(oc.Context.cuda()[data], VALUES)


def test_without_a_driver_for_us(monkeypatch: pytest.MonkeyPatch, library: Library):
    """The other library may have its own way to the GPU."""
    array = library.array(VALUES)
    monkeypatch.setattr(library.driver, "starts", RuntimeError("no library"))
    np.testing.assert_array_equal(oc.Context.cpu(threads=1)[oc.data(array)], VALUES)


@pytest.mark.sampled(3)
def test_all_is_given_back_in_the_end(driver: FakeDriver, library: Library):
    kept = set(driver.alive)
    array = library.array(VALUES)
    own = set(driver.alive) - kept
    before = set(driver.memory)
    x = oc.data(array, label="x")
    ctx = oc.Context.cuda()
    assert float(ctx[x].sum()) == 15
    del ctx, x
    gc.collect()
    assert set(driver.memory) == before
    assert set(driver.alive) == kept | own


def test_an_array_without_dlpack(driver: FakeDriver, library: Library):
    """Its library may be writing it in a stream that nobody knows: all are waited for."""

    class Described:
        array = library.array(VALUES)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            place = int(self.array.address), False
            return {"shape": (2, 3), "typestr": "<f4", "strides": None, "data": place, "version": 3}

    array: Any = Described()
    ctx, y = oc.Context.cuda(), oc.node("y", batch=2, output=3)
    driver.calls.clear()
    ctx[y] = array
    assert "cuCtxSynchronize" in driver.calls
    assert BY_THE_HOST.isdisjoint(driver.calls)
    np.testing.assert_array_equal(ctx[y], VALUES)
