"""NumPy's tests of `einsum`, as installed with it, over `oc.einsum`: all axes stand in the output row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
from support.peers import numpy_specs
from support.peers.suites import load, skip

import ocannl as oc

pytestmark = pytest.mark.exhaustive
LEFT_OUT = {
    "test_einsum_views test_output_order": "results are arrays of their own, in C order",
    "test_einsum_specific_errors": "the arguments `order` and `casting` are NumPy's",
    "test_subscript_range": "axes have names, and no numbers",
}
NO_DTYPE = {"c": "complex numbers", "O": "arrays of objects", "f": "floats of more than 64 bits"}


class Numpy(ModuleType):
    """NumPy with another `einsum`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)

    @staticmethod
    def einsum(
        *operands: Any, out: Any = None, dtype: Any = None, casting: str = "safe", optimize: Any = False
    ) -> Any:
        if casting == "same_value":
            raise ValueError("NumPy's einsum has no such casting")
        spec, arrays = spec_of(operands)
        common = numpy.dtype(dtype) if dtype else numpy.result_type(*arrays)
        if common.kind in "cO" or common.itemsize > 8:
            pytest.skip(NO_DTYPE[common.kind])
        try:
            with oc.Context.cpu(threads=1), oc.eager():
                tensors = [oc.data(a.astype(common), axes="o" * a.ndim) for a in arrays]
                found = oc.einsum(spec, *tensors).numpy().astype(common)
        except oc.ShapeError as error:
            raise ValueError(str(error).replace("`", "'")) from error
        if out is None:
            return found
        out[...] = found
        return out


def spec_of(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """NumPy's arguments as a spec and arrays."""
    text, *rest = operands or ("",)
    if not isinstance(text, str):
        left, right, rest = numpy_specs.parsed(*operands)
        text = f"{left}->{right}"
    arrays = [numpy.asarray(a) for a in rest]
    slots, right = numpy_specs.split(text, [a.shape for a in arrays])
    if len({*right}) < len(right):
        raise ValueError("a name that OCANNL's result has twice is its diagonal")
    slots, arrays = numpy_specs.without_ones(slots, arrays)
    return f"{';'.join(slots)} => {right}", arrays


def sampled(*bounds: int) -> Iterable[int]:
    """The range, but few of the 16 sizes that sums are tested at: each is a program of its own."""
    return (1, 2, 7, 16) if bounds == (1, 17) else range(*bounds)


SUITE = load(Path(numpy.__file__).parent / "_core/tests/test_einsum.py", numpy=Numpy("numpy"))
SUITE.__dict__["range"] = sampled
TestEinsum = SUITE.TestEinsum
skip(TestEinsum, LEFT_OUT)
