"""The stand-in for CUDA's driver has what the real module has: names, parameters, values."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

import pytest
from support.cuda_handles import CUDA_KERNEL_NODE_PARAMS, ENUMS
from support.cuda_on_cpu import FakeDriver
from support.layering import SUPPORT, TESTS

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.cuda.driver import BINDINGS, NO_DRIVER, NO_GPU, Driver

real = pytest.importorskip(BINDINGS, reason="there is no cuda-bindings: pip install 'ocannl[cuda]'")
FUNCTIONS = [name for name, f in vars(FakeDriver).items() if name.startswith("cu") and inspect.isfunction(f)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str):
    """Functions with results return them in a tuple, as `Answer` says."""
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


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in for the library that the real module calls."""
    folder = tmp_path_factory.mktemp("libcuda")
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("there is no C compiler for Linux")
    options = ["-shared", "-fPIC", "-O1", "-UNDEBUG", "-o", str(folder / "libcuda.so.1")]
    subprocess.run([compiler, str(SUPPORT / "cuda" / "libcuda.c"), *options, "-ldl"], check=True)
    return folder


def run(library: Path, **settings: str) -> list[str]:
    """The lines of a program that trains half-moons, and more, through the real module. Without the cache, as
    kernels are known when their text is written.
    """
    settings |= {"LD_LIBRARY_PATH": str(library), "PYTHONPATH": str(TESTS), "OCANNL_BACKEND": "cuda"}
    settings |= {"OCANNL_CACHE": "off"}
    command = [sys.executable, str(SUPPORT / "cuda_library.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | settings)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def lines(library: Path) -> list[str]:
    return run(library)


@pytest.mark.exhaustive
def test_the_real_module_calls_the_driver(lines: list[str]):
    assert lines[0] == "<context cuda: C GPU> sm_80"
    assert "launches of graphs: 29" in lines
    assert [line.split()[-2:] for line in lines[2:5]] == [["250.00", "us"]] * 3


@pytest.mark.exhaustive
def test_the_real_module_calls_the_driver_for_each_kernel(library: Path):
    """And has no memory pools."""
    assert "launches of graphs: 3" in run(library, OCANNL_CUDA_SYNC="1", NO_POOLS="1")


@pytest.mark.exhaustive
def test_what_the_driver_says_of_text_comes_through_the_real_module(lines: list[str]):
    said = "the NVIDIA driver rejects the kernels: invalid text (CUDA_ERROR_INVALID_PTX)"
    assert lines[-2].endswith(said)
    assert lines[-1] == "no such instruction"


def test_a_tensor_map(lines: list[str]):
    """By the address of the driver's function, which the real module finds."""
    assert "a map of tensors: [4096, 72, 20, 288, 32, 16]" in lines


def test_this_machine():
    """There is a GPU, or an error that says what is missing."""
    said = ""
    try:
        version = Driver().version()
    except DeviceError as error:
        version, said = "", str(error)
    if version:
        assert float(version) > 11
    else:
        assert said.startswith((NO_DRIVER, NO_GPU, "the NVIDIA driver does not start"))
