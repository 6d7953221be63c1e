"""Tensors of arrays, their values, and gradients of the user's own, for tests of derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc


def data(array: Array, label: str = "x") -> oc.Tensor:
    return oc.data(array, axes="o" * np.ndim(array), label=label)


def values(*tensors: oc.Tensor) -> list[Array]:
    """All of them by one routine."""
    ctx = oc.Context.cpu(threads=1)
    ctx.compile(sum((oc.forward(t) for t in tensors), oc.Code()), name="values")()
    return [ctx[t] for t in tensors]


def value(tensor: oc.Tensor) -> Array:
    return values(tensor)[0]


def letters(x: oc.Tensor) -> str:
    """The row of each axis."""
    return "b" * len(x.shape.batch) + "o" * len(x.shape.output) + "i" * len(x.shape.input)


@oc.custom_gradient
def clipped(x: oc.Tensor, *, most: float = 1.0):
    """With gradients up to `most`."""
    return x, lambda ct: oc.maximum(-most, oc.minimum(most, ct))


@oc.custom_gradient
def product(x: oc.Tensor, y: oc.Tensor):
    """With the gradients of a product, twice for `y`."""
    return x * y, lambda ct: (ct * y, 2 * ct * x)


def refused(tensor: oc.Tensor) -> str:
    """Why a tensor is not compiled."""
    with pytest.raises(oc.OcannlError) as error:
        value(tensor)
    return str(error.value)
