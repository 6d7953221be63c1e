"""Encodings of integers as vectors."""

from __future__ import annotations

from ocannl.dialects.ir.errors import ShapeError
from ocannl.program.leaves import arange
from ocannl.program.location import here
from ocannl.program.tensor import Dim, Tensor, TensorLike, as_tensor, pointwise


def one_hot(ids: TensorLike, size: int | Dim) -> Tensor:
    """1 at the position that each of `ids` names, 0 elsewhere: batch | -> batch | size.

    The output row of `ids` is empty, or of size 1. An id outside 0..size-1 gives zeros. Raises `ShapeError`
    for other output rows, which would stand beside the positions.
    """
    own = as_tensor(ids)
    if any(isinstance(axis, int) and axis != 1 for axis in own.shape.output):
        raise ShapeError(
            here(f'ids of oc.one_hot have batch axes only, found {own!r}: oc.data(ids, axes="b") has such')
        )
    return pointwise("eq", own, arange(size))
