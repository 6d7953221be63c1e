"""einops' tests of operations, as installed with it, over `oc.rearrange`, `oc.reduce` and `oc.repeat`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.peers.suites import load, skip

import ocannl as oc

einops = pytest.importorskip("einops")
pytestmark = pytest.mark.exhaustive
LEFT_OUT = {
    "test_reduction_with_callable_imperatives": "reductions by functions are written as such",
    "test_enumerating_directions test_tiling_imperatives": "functions that einops keeps to itself",
    "test_concatenations_and_stacking": "lists of tensors are stacked by oc.stack",
    "test_torch_compile_with_dynamic_shape": "PyTorch's own",
}


class Backend:
    """The framework that einops' tests ask for."""

    framework_name = "ocannl"

    @staticmethod
    def from_numpy(array: Any) -> oc.Tensor:
        return oc.data(np.asarray(array))

    @staticmethod
    def to_numpy(tensor: oc.Tensor) -> Any:
        return tensor.numpy()


def backends(symbolic: bool = False, layers: bool = False) -> list[Backend]:
    return [] if symbolic or layers else [Backend()]


def either(ours: Callable[..., oc.Tensor], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """OCANNL's function of its tensors, and einops' of arrays."""

    def function(operand: Any, pattern: str, reduction: str | None = None, **sizes: int) -> Any:
        settings = () if reduction is None else (reduction,)
        return (ours if isinstance(operand, oc.Tensor) else theirs)(operand, pattern, *settings, **sizes)

    return function


with patch.dict(os.environ, {"EINOPS_TEST_BACKENDS": "numpy"}):
    SUITE = load(Path(einops.__file__).parent / "tests/test_ops.py")
skip(SUITE, LEFT_OUT)
SUITE.__dict__.update(
    {name: either(getattr(oc, name), getattr(einops, name)) for name in ("rearrange", "reduce", "repeat")},
    collect_test_backends=backends,
    is_backend_tested=lambda name: False,
    imp_op_backends=backends(),
    sym_op_backends=[],
)
globals().update({name: value for name, value in vars(SUITE).items() if name.startswith("test_")})


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with oc.Context.cpu(threads=1), oc.eager():
        yield
