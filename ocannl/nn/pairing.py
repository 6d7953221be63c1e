"""Predictions and targets that do not stand beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import prod
from typing import Any

import ocannl as oc
from ocannl.program.location import here
from ocannl.program.types.floats import is_integer
from ocannl.program.types.shape_view import ShapeView


def check_paired(a: oc.TensorLike, b: oc.TensorLike) -> None:
    """Raises `ShapeError` where the batch axes of one are as many elements as all axes of the other, with
    output axes: each of these would meet each of those.
    """
    first, second = oc.as_tensor(a), oc.as_tensor(b)
    for own, other in ((first, second), (second, first)):
        if is_crossed(own.shape, other.shape):
            is_row = not other.shape.batch and not _are_known(own.shape.output)
            layer = f"; a layer with these outputs for each row says out_dim={other.shape.output[-1]}"
            raise oc.ShapeError(
                here(
                    f"{own!r} has its elements along batch axes, {other!r} along output axes: each would "
                    f'meet each; data have batch axes as in oc.data(array, axes="{"b" * other.ndim}")'
                    f"{layer if is_row else ''}"
                )
            )


def is_crossed(own: ShapeView[Any], other: ShapeView[Any]) -> bool:
    """Whether one value has a number of elements in its batch row, and another the same with output axes.

    Output axes that are open, as of a layer whose size nothing has said, would become those of the other.
    """
    sizes, others = [size for size in own.batch if size is not ...], (*other.batch, *other.output)
    if not _are_known((*sizes, *others)) or prod(known_sizes(other.output)) <= 1:
        return False
    return prod(known_sizes(sizes)) == prod(known_sizes(others)) and _has_one_output(own)


def _has_one_output(shape: ShapeView[Any]) -> bool:
    """Whether a shape has one element in its output row, or it is not known how many."""
    if _are_known(shape.output):
        return prod(known_sizes(shape.output)) == 1
    try:
        return prod(shape.array) == prod(known_sizes(shape.batch))
    except oc.ShapeError:
        return True


def known_sizes(sizes: Iterable[object]) -> list[int]:
    """The sizes that are known."""
    return [size for size in sizes if isinstance(size, int)]


def _are_known(sizes: Iterable[object]) -> bool:
    return all(isinstance(size, int) for size in sizes)


def check_ids(target: oc.Tensor, of: str) -> None:
    """Raises `ShapeError` for ids that are known to have output axes."""
    ids = oc.as_tensor(target)
    if any(isinstance(size, int) for size in ids.shape.output):
        raise _ids_with_outputs(ids, of)


def _ids_with_outputs(ids: oc.Tensor, of: str) -> oc.ShapeError:
    """Of a column of ids, the way out is its only position."""
    axes, is_argument = "b" * ids.ndim, ids.ir_value.is_argument
    argument = f'@oc.function(axes={{"{ids.label}": "{axes}"}})'
    way = argument if is_argument else f'oc.data(ids, axes="{axes}")'
    if ids.shape.batch and ids.shape.output == (1,):
        way = f"{ids.label}[..., 0]"
    return oc.ShapeError(here(f"ids of {of} have batch axes only, found {ids!r}: {way} has such"))


def check_classes(scores: oc.Tensor, target: oc.Tensor, of: str) -> None:
    """Raises `ShapeError` for scores without classes, and for a target that is known to be neither ids nor a
    distribution over the classes.
    """
    if scores.shape.output == ():
        swapped = ": they come first, and then the target" if target.shape.output else ""
        raise oc.ShapeError(
            here(f"scores of {of} have an output axis, of classes, found {scores!r} without one{swapped}")
        )
    sizes = zip(_last_known(scores.shape.output), _last_known(target.shape.output), strict=False)
    for classes, found in sizes:
        if found != classes and is_integer(target.ir_value):
            raise _ids_with_outputs(target, of)
        if found != classes:
            why = f"there are {classes} of these, and {found} in {target!r}"
            raise oc.ShapeError(here(f"a distribution of {of} has a number for each class: {why}"))


def _last_known(sizes: Sequence[object]) -> list[int]:
    """Sizes from the last one to the first that is not known."""
    return known_sizes(takewhile(lambda size: isinstance(size, int), reversed(sizes)))
