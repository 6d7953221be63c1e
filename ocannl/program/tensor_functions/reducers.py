"""Reductions as functions of tensors.

`axes` are all axes by default; else a row's name ("batch", "input", "output"), or numbers of axes in the
order of memory: batch, output, input axes. With `keep`, reduced axes stay, with one element.
"""

from __future__ import annotations

from ocannl.program.derivatives import stop_gradient
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.tensor_functions.reductions import Axes, Reduction
from ocannl.program.tensor_functions.remembered import remembered


def sum(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The sum over axes."""
    return as_tensor(t).sum(axes, keep)


def prod(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The product over axes."""
    return as_tensor(t).prod(axes, keep)


def mean(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The mean over axes."""
    return as_tensor(t).mean(axes, keep)


def max(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The greatest element along axes; its gradient goes to each element that attains it. Raises `ShapeError`
    where there are no elements, for sizes that are not known yet when it is first used; `oc.einmax` gives
    -inf.
    """
    return as_tensor(t).max(axes, keep)


def min(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The least element along axes, as `oc.max`."""
    return as_tensor(t).min(axes, keep)


def any(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """1 where an element along axes is not 0, else 0."""
    return as_tensor(t).any(axes, keep)


def all(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """1 where no element along axes is 0, else 0."""
    return as_tensor(t).all(axes, keep)


@remembered
def logsumexp(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials over axes, without overflow; of nothing but -inf, -inf."""
    tensor = as_tensor(t)

    def top(keep: bool) -> Tensor:
        greatest = stop_gradient(Tensor(Reduction(tensor.ir_value, axes, keep).reduce("max")))
        return pointwise("where", pointwise("isfinite", greatest), greatest, 0.0)

    total = pointwise("exp", tensor - top(keep=True)).sum(axes, keep)
    return pointwise("log", total) + top(keep)


def var(t: TensorLike, axes: Axes = None, keep: bool = False, *, ddof: int = 0) -> Tensor:
    """The variance over axes; the sum of squares is divided by the number of elements less `ddof`."""
    return as_tensor(t).var(axes, keep, ddof=ddof)


def std(t: TensorLike, axes: Axes = None, keep: bool = False, *, ddof: int = 0) -> Tensor:
    """The standard deviation over axes, the root of `oc.var`."""
    return as_tensor(t).std(axes, keep, ddof=ddof)


def argmax(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The position of the first greatest element: along one axis, or among the elements of several in the
    order of memory. It has no gradient.
    """
    return as_tensor(t).argmax(axes, keep)


def argmin(t: TensorLike, axes: Axes = None, keep: bool = False) -> Tensor:
    """The position of the first least element, as `oc.argmax`."""
    return as_tensor(t).argmin(axes, keep)
