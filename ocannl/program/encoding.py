"""Encodings of integers as vectors."""

from __future__ import annotations

from ocannl.program.leaves import arange
from ocannl.program.tensor import Dim, Tensor, TensorLike, pointwise


def one_hot(ids: TensorLike, size: int | Dim) -> Tensor:
    """1 at the position that each of `ids` names, 0 elsewhere: batch | -> batch | size.

    The output row of `ids` is empty. An id outside 0..size-1 gives zeros.
    """
    return pointwise("eq", ids, arange(size))
