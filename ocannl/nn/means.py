"""Sums and means over rows of axes."""

from __future__ import annotations

import ocannl as oc


def mean(x: oc.Tensor) -> oc.Tensor:
    """The mean of all elements, one number."""
    b, i, o = oc.Dim("b"), oc.Dim("i"), oc.Dim("o")
    return oc.einsum("..b.. | ..i.. -> ..o.. => |", x, b=b, i=i, o=o) / (b * i * o)


def total(x: oc.Tensor) -> oc.Tensor:
    """The sum of all elements, one number."""
    return oc.einsum("... | ... -> ... => |", x)


def output_mean(x: oc.Tensor) -> oc.Tensor:
    """The mean over all output axes: batch | out -> batch |."""
    n = oc.Dim("n")
    return oc.einsum("... | ..n.. => ... |", x, n=n) / n
