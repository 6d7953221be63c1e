"""tinygrad's tests of operators against PyTorch, over OCANNL; `TINYGRAD=<checkout>` says where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.peers.suites import checkout, load, skip
from support.peers.tinygrad.tensor import Tensor

import ocannl as oc

pytest.importorskip("torch")
pytestmark = pytest.mark.exhaustive
LEFT_OUT = {
    "test_linspace": "a linspace of truth values is NumPy's",
    "test_max": "each of several maxima gets the whole gradient",
    "test_maximum test_minimum test_relu_maximum_exact": "a tie has its gradient in the first operand",
    "test_sigmoid_alt_extreme": "exp overflows, and inf / inf is NaN, as in PyTorch",
    "test_prod_dtype_arg test_sum_dtype_arg": "dtypes are NumPy's",
    "test_reshape": "other types of exceptions",
    "test_clip": "clip without bounds changes nothing",
    "test_int_pow_const_int": "a negative power of an integer is 1 / x**n, towards 0",
    "test_pad_reflect_mode test_pad_circular_mode": "images repeat as often as it takes, as in NumPy",
    "test_pad_replicate_mode": "PyTorch 2.14 refuses a result without elements",
    "test_int_or": "a Python number that a type has not is an error",
    "test_slice_errors test_slice_fancy_indexing_errors": "other types of exceptions",
    "test_slice_fancy_indexing_dim_collapse_int": "integers beside ids are ids, as in NumPy",
}


class Dtypes(SimpleNamespace):
    """Names of dtypes, with the limits of integers."""

    def __getattr__(self, name: str) -> Any:
        found = {"float": "float32", "half": "float16", "default_float": "float32", "default_int": "int32"}
        if name == "int":
            info = np.iinfo(np.int32)
            return type("int32", (np.int32,), {"max": info.max, "min": info.min, "dtype": np.dtype("int32")})
        return np.dtype(found.get(name, name))


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


DTYPES = Dtypes()
RENDERER = SimpleNamespace(supported_dtypes=lambda: {np.dtype("float16")}, device="CPU")
CPU = SimpleNamespace(renderer=RENDERER, device="CPU")
DEVICE = type("Device", (dict,), {"DEFAULT": "CPU"})(CPU=CPU)
SUITE = load(
    checkout("TINYGRAD", "test/backend/test_ops.py"),
    tinygrad=module("tinygrad", Tensor=Tensor, Device=DEVICE, dtypes=DTYPES),
    tinygrad__helpers=module(
        "tinygrad.helpers",
        getenv=lambda name, default=0: default,
        DEBUG=0,
        DEV=SimpleNamespace(interface="", renderer="", device="CPU"),
        IMAGE=0,
        Context=lambda **settings: nullcontext(),
    ),
    tinygrad__tensor=module("tinygrad.tensor", _to_np_dtype=np.dtype),
    tinygrad__renderer=module("tinygrad.renderer"),
    tinygrad__renderer__nir=module("tinygrad.renderer.nir", NIRRenderer=type("NIRRenderer", (), {})),
)
TestOps, TestOpsUint8 = SUITE.TestOps, SUITE.TestOpsUint8


def expects(
    self: Any,
    shapes: Any,
    theirs: Callable[..., Any],
    ours: Callable[..., Any] | None = None,
    expected: Any = None,
    forward_only: bool = False,
    vals: Any = None,
    **settings: Any,
) -> None:
    """Both raise; OCANNL an error of its own."""
    torch_tensors, tensors = SUITE.prepare_test_op(-1.5, 1.5, shapes, vals, forward_only)
    with pytest.raises(expected):
        theirs(*torch_tensors)
    with pytest.raises((oc.OcannlError, ValueError, IndexError, RuntimeError, TypeError)):
        (ours or theirs)(*tensors).numpy()


TestOps.helper_test_exception = expects
skip(TestOps, LEFT_OUT)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with oc.Context.cpu(threads=1):
        yield
