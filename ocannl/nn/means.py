"""Means over rows of axes."""

from __future__ import annotations

import ocannl as oc


def mean(x: oc.Tensor) -> oc.Tensor:
    """The mean of all elements, one number."""
    b, i, o = oc.Dim("b"), oc.Dim("i"), oc.Dim("o")
    return oc.einsum("..b.. | ..i.. -> ..o.. => 0", x, b=b, i=i, o=o) / (b * i * o)


def output_mean(x: oc.Tensor) -> oc.Tensor:
    """The mean over all output axes: batch | out -> batch |."""
    n = oc.Dim("n")
    return oc.einsum("... | ..n.. => ... |", x, n=n) / n
