"""Boxes: the part of a node that one thread copies in bulk into a swizzled array (TMA).

A tensor map tells the hardware the sizes of a node and those of a box; the copy says where the box begins.
What of it is outside of the node is zero.

https://docs.nvidia.com/cuda/cuda-driver-api, "cuTensorMapEncodeTiled"
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import element_bytes, is_swizzled, memref_shape
from ocannl.dialects.kernel.gpu import SWIZZLED_BYTES, VECTOR_BYTES
from ocannl.dialects.records import dataclass

# The axes of a node that has a tensor map, and the elements of a box along each.
MOST_AXES, MOST_ELEMENTS = 5, 256


@dataclass(frozen=True)
class Box:
    """The boxes that a bulk copy moves: beside each other along the last axis, each with rows of 128 bytes.

    Attributes:
        sizes: the elements of each box along the axes of the node.
        first: the indices at which the first box begins.
        count: how many boxes there are.
        extents: where the node ends for the copy, along each axis; the rows of its memory may be longer.
    """

    sizes: tuple[int, ...]
    first: Map
    count: int
    extents: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Those of the array that is filled."""
        return max(self.sizes[:-1])


def find_box(
    source: tuple[SSAValue, Map], target: tuple[SSAValue, Map], space: Space, bounds: Sequence[Bound]
) -> Box | str:
    """The boxes of a copy of a whole tile; the reason if there are none."""
    (node, indices), (array, places) = source, target
    shape, bytes = memref_shape(node), element_bytes(array)
    if not isinstance(node.owner, NodeOp) or not is_swizzled(array) or len(space) != 2:
        return "a bulk copy is from a node to a swizzled array, over rows and columns"
    (row, rows), (column, columns) = space
    if places[-2:] != (Linear.var(row), Linear.var(column)) or memref_shape(array)[-2:] != (rows, columns):
        return "a bulk copy fills a tile"
    if not 2 <= len(shape) <= MOST_AXES or rows > MOST_ELEMENTS or shape[-1] * bytes % VECTOR_BYTES:
        return (
            f"a bulk copy has at most {MOST_ELEMENTS} rows, and is from a node with 2 to {MOST_AXES} axes, "
            f"the last one a multiple of {VECTOR_BYTES} bytes"
        )
    steps = [(index.coefficient(row), index.coefficient(column)) for index in indices]
    if steps[-1] != (0, 1) or sorted(steps[:-1])[-1:] != [(1, 0)] or sum(map(sum, steps)) != 2:
        return f"`{row}` and `{column}` are not each along one axis of the node, `{column}` along the last"
    extents = list(shape)
    for bound in bounds:
        if bound.index not in indices:
            return f"`{bound}` is not where an axis of the node ends"
        axis = indices.index(bound.index)
        extents[axis] = min(extents[axis], bound.below)
    width = SWIZZLED_BYTES // bytes
    sizes = (*(rows if step == (1, 0) else 1 for step in steps[:-1]), width)
    first = tuple(index.substitute({row: Linear(), column: Linear()}) for index in indices)
    return Box(sizes, first, columns // width, tuple(extents))
