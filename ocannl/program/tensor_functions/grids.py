"""Coordinates of the points of a grid."""

from __future__ import annotations

from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import spec_apply
from ocannl.program.memory.memory_axes import MemoryAxes
from ocannl.program.tensor import Tensor, TensorLike, as_tensor


def meshgrid(*axes: TensorLike, indexing: str = "ij") -> list[Tensor]:
    """For tensors of one axis each, as many tensors of all axes: the coordinates of each point of the grid.
    The axes stand in the row of the first tensor's, in their order; by `indexing="xy"`, the default of NumPy,
    the second is before the first.

    Raises `ArgumentError` for tensors of several axes, `ShapeError` where a size is not known.
    """
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f'the axes of a grid are in the order "ij" or "xy", found {indexing!r}')
    known = [MemoryAxes(as_tensor(axis).ir_value) for axis in axes]
    for one in known:
        if len(one.places) != 1:
            raise ArgumentError(f"a grid is made of tensors of one axis, found `{one.label}`: {one.shape}")
    names = [f"a{number}" for number in range(len(known))]
    dims = [(name, Dim(one.sizes[0])) for name, one in zip(names, known, strict=True)]
    order = [names[1], names[0], *names[2:]] if indexing == "xy" and len(names) > 1 else names
    found: list[Tensor] = []
    for name, one in zip(names, known, strict=True):
        place, first = one.slot("k"), known[0].slot("k")
        result = first.with_axes({first.axes[0]: order})
        spec = f"{place.with_axes({place.axes[0]: (name,)})} => {result}"
        found.append(Tensor(spec_apply(spec, "add", "mul", [one.value], dims)))
    return found
