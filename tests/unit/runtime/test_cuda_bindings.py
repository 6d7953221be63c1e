"""The stand-in for CUDA's driver has what the real module has: names, parameters, values."""

from __future__ import annotations

import inspect
from enum import IntEnum

import pytest
from cuda_on_cpu import CUDA_KERNEL_NODE_PARAMS, ENUMS, FakeDriver

from ocannl.dialects.errors import DeviceError
from ocannl.runtime.cuda.driver import BINDINGS, NO_DRIVER, NO_GPU, Driver

real = pytest.importorskip(BINDINGS, reason="there is no cuda-bindings: pip install 'ocannl[cuda]'")
FUNCTIONS = [name for name, f in vars(FakeDriver).items() if name.startswith("cu") and inspect.isfunction(f)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str):
    """What returns results returns them in a tuple, which `Answer` says."""
    fake = list(inspect.signature(vars(FakeDriver)[name]).parameters)[1:]
    assert fake == list(inspect.signature(getattr(real, name)).parameters)


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_values(enum: type[IntEnum]):
    for member in enum:
        assert getattr(getattr(real, enum.__name__), member.name).value == member.value


def test_parameters_of_a_kernel():
    params = real.CUDA_KERNEL_NODE_PARAMS()
    params.func, params.gridDimX, params.kernelParams = real.CUfunction(16), 3, 4096
    assert (int(params.func), params.gridDimX, params.kernelParams) == (16, 3, 4096)
    assert all(hasattr(params, name) for name in CUDA_KERNEL_NODE_PARAMS.FIELDS)
    assert int(real.cuuint64_t(2**64 - 1)) == 2**64 - 1
    assert int(real.CUdeviceptr(2**63)) == 2**63


def test_results_are_true_where_something_failed():
    assert not real.CUresult.CUDA_SUCCESS
    assert all(result for result in real.CUresult if result.name != "CUDA_SUCCESS")


def test_this_machine():
    """There is a GPU, or an error that says what is missing."""
    try:
        version = Driver().version()
    except DeviceError as error:
        assert str(error).startswith((NO_DRIVER, NO_GPU, "the NVIDIA driver does not start"))  # noqa: PT017
    else:
        assert float(version) > 11
