"""Predictions and targets that do not stand beside each other."""

from __future__ import annotations

from math import prod
from typing import Any

import ocannl as oc
from ocannl.program.location import here


def check_paired(a: oc.TensorLike, b: oc.TensorLike) -> None:
    """Raises `ShapeError` where the batch axes of one are as many elements as the output axes of the other,
    as far as both are known: each of these would meet each of those.
    """
    first, second = oc.as_tensor(a), oc.as_tensor(b)
    for own, other in ((first, second), (second, first)):
        if is_crossed(own.shape.batch, own.shape.output, other.shape.batch, other.shape.output):
            raise oc.ShapeError(
                here(
                    f"{own!r} has its elements along batch axes, {other!r} along output axes: each would "
                    'meet each; data have batch axes as in oc.data(array, axes="b")'
                )
            )


def is_crossed(
    batch: tuple[Any, ...], output: tuple[Any, ...], others: tuple[Any, ...], along: tuple[Any, ...]
) -> bool:
    """Whether one value has a number of elements in its batch row, and another the same in its output row."""
    sizes = [size for size in batch if size is not ...]
    if others or not all(isinstance(size, int) for size in (*sizes, *output, *along)):
        return False
    return prod(along) > 1 and prod(sizes) == prod(along) and prod(output) == 1


def check_ids(target: oc.Tensor, of: str) -> None:
    """Raises `ShapeError` for ids that are known to have output axes."""
    ids = oc.as_tensor(target)
    if any(isinstance(size, int) for size in ids.shape.output):
        raise oc.ShapeError(
            here(f'ids of {of} have batch axes only, found {ids!r}: oc.data(ids, axes="b") has such')
        )
