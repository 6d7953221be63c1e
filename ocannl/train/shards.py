"""Data in parts, one for each of several contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.dialects.shapes.shape import Dim
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.runtime.cuda.gpu import CudaMemory


def shard_along(data: oc.Tensor, shards: int, *, axis: int = 0) -> list[oc.Tensor]:
    """Data tensors with the equal parts of one along an axis, by its number in the order of memory.

    Raises `ArgumentError` for a tensor without contents of its own, and an axis that has not so many parts.
    """
    whole, count = contents(data), integer(shards, "the number of shards", least=1)
    axis = _axis(axis, whole.ndim, data)
    if whole.shape[axis] % count:
        raise oc.ArgumentError(
            f"`{data.label}` has {whole.shape[axis]} elements along axis {axis}, "
            f"which are not {count} equal parts"
        )
    parts = np.split(whole, count, axis)
    return [_like(data, part, f"{data.label}_shard{number}") for number, part in enumerate(parts)]


def gather(shards: Sequence[oc.Tensor], *, axis: int = 0) -> oc.Tensor:
    """A data tensor with the contents of several, one after the other along an axis: the inverse of
    `shard_along`.

    Raises `ArgumentError` for no tensors, for tensors without contents of their own, and for shapes that
    differ in another axis.
    """
    if not shards:
        raise oc.ArgumentError("gather joins shards, and there are none")
    parts = [contents(shard) for shard in shards]
    axis = _axis(axis, parts[0].ndim, shards[0])
    shapes = [(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts]
    for shard, part, shape in zip(shards, parts, shapes, strict=True):
        if (part.ndim, part.dtype, shape) != (parts[0].ndim, parts[0].dtype, shapes[0]):
            raise oc.ArgumentError(
                f"`{shard.label}` of shape {part.shape} and {part.dtype} does not continue "
                f"`{shards[0].label}` of shape {parts[0].shape} and {parts[0].dtype} along axis {axis}"
            )
    return _like(shards[0], np.concatenate(parts, axis), "gathered")


def contents(data: oc.Tensor) -> NDArray[Any]:
    """The array of data. Raises `ArgumentError`."""
    found = data.ir_value.array
    if found is None or not graph.known_shape(data.ir_value).is_final:
        raise oc.ArgumentError(
            f"`{data.label}` has no array of its own with axes: data of oc.data are sharded and gathered"
        )
    return found.read() if isinstance(found, CudaMemory) else found


def _axis(axis: int, count: int, data: oc.Tensor) -> int:
    number = integer(axis, "the number of an axis", least=None)
    if not -count <= number < count:
        raise oc.ArgumentError(f"`{data.label}` has {count} axes, and none of number {number}")
    return number % count


def _like(data: oc.Tensor, array: NDArray[Any], label: str) -> oc.Tensor:
    """Data with the same axes: their rows, and their bases."""
    rows = graph.known_shape(data.ir_value)
    dims = enumerate(rows.memory_axes)
    bases = {at: dim.basis for at, dim in dims if isinstance(dim, Dim) and dim.basis is not None}
    axes = "b" * len(rows.batch.axes) + "o" * len(rows.output.axes) + "i" * len(rows.input.axes)
    return oc.data(array, axes=axes, bases=bases, label=label)
