"""The two columns of the page for those who come from JAX agree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from support.pages import FROM_JAX, Runner, rows_of_code

import ocannl as oc
from ocannl.dialects.texpr import DataOp

jax: Any = pytest.importorskip("jax")

# Random numbers are others, what is compiled is other text, and other packages are not installed.
APART = re.compile(r"random|jaxpr|lower|devices|device_get|disable_jit|nnx|optax|orbax")

ROWS = [row for row in rows_of_code(FROM_JAX) if not APART.search(row[0])]


@cache
def page() -> dict[str, Any]:
    """The names that the examples of the page define."""
    with TemporaryDirectory() as folder:
        runner = Runner(FROM_JAX, Path(folder))
        runner.run_all()
    return runner.names


def array_of(value: Any) -> Any:
    """For JAX, a tensor of data is its array."""
    return jax.numpy.asarray(value.numpy())


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[theirs for theirs, _ in ROWS])
def test_rows(theirs: str, ours: str):
    names = page()
    with jax.enable_x64(True):
        data = {
            n: array_of(t) for n, t in names.items() if isinstance(t, oc.Tensor) and isinstance(t.op, DataOp)
        }
        expected = eval(theirs, {**names, **data, "jax": jax, "jnp": jax.numpy})
    found = eval(ours, names)
    expected, found = (value if isinstance(value, tuple) else (value,) for value in (expected, found))
    for left, right in zip(found, expected, strict=True):
        tolerance = 1e-5 if np.asarray(left).dtype == np.float32 else 1e-10
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=tolerance, atol=tolerance)
