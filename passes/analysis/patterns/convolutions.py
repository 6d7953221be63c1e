"""Two-dimensional convolutions among nests, and the gradients of their kernels: sums of products of windows
of an image with what moves along the offsets in a window, or along the positions of windows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type

from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import names_in, variable_sizes


@dataclass(frozen=True, slots=True)
class Window:
    """An axis of an image that is read at `position + offset`, or at `position - offset` if it is flipped."""

    position: str
    offset: str
    is_flipped: bool


@dataclass(frozen=True)
class Convolution:
    """A sum of products of an image with a kernel, or with what has the shape of such sums.

    Attributes:
        other: the operand that is no image.
        windows: the axes along which windows move.
        of_kernel: whether the result is the gradient of a kernel, and the sum over positions.
        batch: the other variables that image and output share.
        inner: those that image and kernel share, the channels of the image.
        outer: those that kernel and output share.
    """

    nest: NestOp
    reduction: ReduceOp
    image: LoadOp
    other: LoadOp
    windows: tuple[Window, ...]
    of_kernel: bool
    batch: Space
    inner: Space
    outer: Space

    @property
    def positions(self) -> Space:
        sizes = variable_sizes(self.nest)
        return tuple((window.position, sizes[window.position]) for window in self.windows)


def find_convolution(nest: NestOp, offsets: int, step: int) -> Convolution | None:
    """The convolution that a nest is, of windows with so many offsets along both axes, whose positions are
    multiples of a step; None if it is none.
    """
    reduction = only_sum_of_products(nest)
    if reduction is None or nest.clashing:
        return None
    first, second = (op for op in reduction.body.block.ops if isinstance(op, LoadOp))
    tried = ((first, second), (second, first))
    found = (as_convolution(nest, reduction, *loads, offsets, step) for loads in tried)
    return next(filter(None, found), None)


def only_sum_of_products(nest: NestOp) -> ReduceOp | None:
    """The sum of products of two loads in f32 that is the only reduction of a nest, which writes neither."""
    ops = list(nest.body.block.ops)
    sums = [op for op in ops if isinstance(op, ReduceOp)]
    if len(sums) != 1 or nest.schedule is not None or not isinstance(nest.parent_op(), FuncOp):
        return None
    (found,) = sums
    loads = [op for op in found.body.block.ops if isinstance(op, LoadOp)]
    written = {op.node for op in ops if isinstance(op, StoreOp)}
    product = found.yielded.owner
    is_product = (
        found.accum.data == "add"
        and found.where is None
        and isinstance(found.result.type, Float32Type)
        and isinstance(product, arith.MulfOp)
        and len(loads) == 2
        and len(list(found.body.block.ops)) == 4
        and set(product.operands) == {load.result for load in loads}
    )
    return found if is_product and not any(op.positions or op.node in written for op in loads) else None


def as_convolution(
    nest: NestOp, reduction: ReduceOp, image: LoadOp, other: LoadOp, offsets: int, step: int
) -> Convolution | None:
    sizes = variable_sizes(nest)
    own, summed = set(nest.space.names), set(reduction.space.names)
    along_image, along_other = (names_in(load.indices.data) & sizes.keys() for load in (image, other))
    if along_image & along_other != summed or along_image ^ along_other != own:
        return None
    for of_kernel in (False, True):
        of_output, of_kernels = (summed, own) if of_kernel else (own, summed)
        windows = find_windows(image, along_image & of_output, along_image & of_kernels)
        if len(windows) == 2 and all(
            sizes[window.offset] == offsets and sizes[window.position] % step == 0 for window in windows
        ):
            moving = {name for window in windows for name in (window.position, window.offset)}
            batch, inner, outer = (
                space_of(nest, reduction, names - moving)
                for names in (along_image & of_output, along_image & of_kernels, along_other - along_image)
            )
            return Convolution(nest, reduction, image, other, windows, of_kernel, batch, inner, outer)
    return None


def find_windows(image: LoadOp, positions: Iterable[str], offsets: Iterable[str]) -> tuple[Window, ...]:
    """The pairs of a position and an offset by equal steps of which an image is read, in the order of its
    axes; none where one is in several pairs.
    """
    found = list[tuple[int, Window]]()
    for position in positions:
        steps = [index.coefficient(position) for index in image.indices.data]
        for offset in offsets:
            others = [index.coefficient(offset) for index in image.indices.data]
            if others in (steps, [-step for step in steps]):
                axis = next(axis for axis, step in enumerate(steps) if step)
                found.append((axis, Window(position, offset, others != steps)))
    names = {name for _, window in found for name in (window.position, window.offset)}
    if len(names) < 2 * len(found):
        return ()
    return tuple(window for _, window in sorted(found, key=lambda entry: entry[0]))


def space_of(nest: NestOp, reduction: ReduceOp, names: Collection[str]) -> Space:
    """Some variables with their sizes, in the order of the loops."""
    return tuple(extent for extent in (*nest.space.data, *reduction.space.data) if extent[0] in names)


def points(*spaces: Space) -> int:
    return math.prod(size for space in spaces for _, size in space)
