"""Means over rows of axes."""

from __future__ import annotations

import ocannl as oc
from ocannl.program.types.casts import floats


def mean(x: oc.Tensor) -> oc.Tensor:
    """The mean of all elements, one number of shape ()."""
    return oc.mean(x)


def output_mean(x: oc.Tensor) -> oc.Tensor:
    """The mean over all output axes: batch | out -> batch |."""
    n = oc.Dim("n")
    return oc.einsum("... | ..n.. => ... |", floats(x), n=n) / n
