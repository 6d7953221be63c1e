"""Arrays of other libraries, as DLPack gives them."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cuda_arrays import Library
from support.cuda_on_cpu import FakeDriver

from ocannl.runtime import dlpack
from ocannl.runtime.foreign import Foreign, device_of, received

DTYPES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"),
    *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
)
CPU = dlpack.CPU, 0


@pytest.fixture
def library() -> Library:
    return Library(FakeDriver())


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
@pytest.mark.parametrize("name", DTYPES)
def test_what_an_array_is(library: Library, name: str, version: tuple[int, int] | None):
    dtype = dtype_named(name)
    capsule = library.capsule(1 << 20, (2, 0, 3), dtype, (2, 5), version=version, offset=64)
    found = Foreign(capsule)
    assert (found.address, found.shape, found.dtype) == ((1 << 20) + 64, (2, 0, 3), dtype)
    assert found.device == (2, 5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_it_is_given_back_once(library: Library, version: tuple[int, int] | None):
    """With what was made of the capsule, and not with that."""
    capsule = library.capsule(64, (3,), np.dtype(np.float32), CPU, version=version)
    found = Foreign(capsule)
    with pytest.raises(BufferError, match="somebody has taken it"):
        Foreign(capsule)
    del capsule
    gc.collect()
    assert not library.returned
    del found
    gc.collect()
    assert len(library.returned) == library.given == 1


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "strides": ({"strides": (1, 2)}, "has strides"),
    "vectors": ({"lanes": 4}, "type 2 with 32 bits"),
    "complex": ({"dtype": np.dtype(np.complex64)}, "type 5 with 64 bits"),
    "a later version": ({"version": (2, 1)}, r"DLPack 2\.1 is not known"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_given_back(library: Library, what: str):
    given, message = REFUSED[what]
    options: dict[str, Any] = {"dtype": np.dtype(np.float32), **given}
    with pytest.raises(BufferError, match=message):
        Foreign(library.capsule(64, (2, 3), options.pop("dtype"), CPU, **options))
    gc.collect()
    assert len(library.returned) == 1


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (0, 4), ()])
def test_strides_that_say_nothing(library: Library, shape: tuple[int, ...]):
    steps = tuple(step if size > 1 else 77 for size, step in zip(shape, dlpack.row_major(shape), strict=True))
    capsule = library.capsule(64, shape, np.dtype(np.float32), CPU, strides=steps)
    assert Foreign(capsule).shape == shape


def test_devices_of_arrays():
    assert device_of(np.zeros(3)) == CPU
    assert device_of([1, 2]) is device_of(3.0) is None


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    array = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    assert device_of(array) == CPU
    found = Foreign(array.__dlpack__(max_version=(1, 0)))
    assert (found.address, found.shape) == (array.data_ptr(), (2, 3))
    assert found.dtype == dtype_named(name)


def test_a_parameter_of_pytorch_and_what_is_nowhere():
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(3))
    assert received(parameter, -1).address == parameter.data_ptr()
    assert device_of(torch.ones(3, device="meta")) is None


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    found = Foreign(jax.numpy.ones((2, 3), jax.numpy.bfloat16).__dlpack__())
    assert (found.shape, found.dtype, found.device) == ((2, 3), ml_dtypes.bfloat16, CPU)
