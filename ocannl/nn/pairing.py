"""Predictions and targets that do not stand beside each other."""

from __future__ import annotations

from math import prod
from typing import Any

import ocannl as oc
from ocannl.program.location import here
from ocannl.program.types.shape_view import ShapeView


def check_paired(a: oc.TensorLike, b: oc.TensorLike) -> None:
    """Raises `ShapeError` where the batch axes of one are as many elements as the output axes of the other:
    each of these would meet each of those.
    """
    first, second = oc.as_tensor(a), oc.as_tensor(b)
    for own, other in ((first, second), (second, first)):
        if is_crossed(own.shape, other.shape):
            raise oc.ShapeError(
                here(
                    f"{own!r} has its elements along batch axes, {other!r} along output axes: each would "
                    'meet each; data have batch axes as in oc.data(array, axes="b")'
                )
            )


def is_crossed(own: ShapeView[Any], other: ShapeView[Any]) -> bool:
    """Whether one value has a number of elements in its batch row, and another the same in its output row.

    Output axes that are open, as of a layer whose size nothing has said, would become those of the other.
    """
    sizes, along = [size for size in own.batch if size is not ...], other.output
    if other.batch or not all(isinstance(size, int) for size in (*sizes, *along)):
        return False
    return prod(along) > 1 and prod(sizes) == prod(along) and _has_one_output(own)


def _has_one_output(shape: ShapeView[Any]) -> bool:
    """Whether a shape has one element in its output row, or it is not known how many."""
    if all(isinstance(size, int) for size in shape.output):
        return prod(shape.output) == 1
    try:
        return prod(shape.array) == prod(size for size in shape.batch if size is not ...)
    except oc.ShapeError:
        return True


def check_ids(target: oc.Tensor, of: str) -> None:
    """Raises `ShapeError` for ids that are known to have output axes."""
    ids = oc.as_tensor(target)
    if any(isinstance(size, int) for size in ids.shape.output):
        raise oc.ShapeError(
            here(f'ids of {of} have batch axes only, found {ids!r}: oc.data(ids, axes="b") has such')
        )
