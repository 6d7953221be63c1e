"""`trim-resets`: cells that are written before they are read are not set to a constant before, for a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel.gpu import BYTES_A_CYCLE, LAUNCH_CYCLES
from ocannl.dialects.loops import FuncOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import accesses, functions, points, single_nests, steps_using
from ocannl.passes.analysis.patterns.resets import reset_to
from ocannl.passes.rewrites.rfactor import nest_of

# A part of the cells of a node: a space, and the cell at each of its points.
Part = tuple[Space, Map]


@dataclass(frozen=True)
class TrimResetsPass(ModulePass):
    """Partial dead-store elimination (Knoop, Rüthing, Steffen, "Partial Dead Code Elimination", 1994): where
    a nest sets all cells of a node to a constant, and the next one that touches it stores to a box of them,
    the cells around the box are set alone.

    So are the zeros around the image of a convolution, by a nest for each axis, where that takes less time by
    the bytes that are written.
    """

    name = "trim-resets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in single_nests(func):
                if reset_to(nest) is not None:
                    trim(func, nest)


def trim(func: FuncOp, reset: NestOp) -> None:
    """Lets a reset leave out the box that the next nest stores to, if that pays."""
    (store,) = (op for op in reset.body.block.ops if isinstance(op, StoreOp))
    touching = steps_using(func, store.node)
    writer = next(iter(touching[touching.index(reset) + 1 :]), None)
    box = stored_box(writer, store) if isinstance(writer, NestOp) else None
    if box is None:
        return
    shape = memref_shape(store.node)
    parts = list(around(shape, box))
    if cycles(store, [points(space) for space, _ in parts]) < cycles(store, [points(reset.space.data)]):
        for space, cells in parts:
            constant = reset_to(reset)
            assert constant is not None
            value = constant.clone()
            part = nest_of(reset.label.data, space, [value, StoreOp(value.result, store.node, cells)])
            derive([part], reset.location)
            Rewriter.insert_op(part, InsertPoint.before(reset))
        Rewriter.erase_op(reset)


def cycles(store: StoreOp, counts: Sequence[int]) -> float:
    """The estimated cycles of nests that store to so many cells each."""
    return sum(count * element_bytes(store.node) / BYTES_A_CYCLE + LAUNCH_CYCLES for count in counts)


def stored_box(nest: NestOp, reset: StoreOp) -> list[range] | None:
    """The cells along each axis of a box, each of which a nest stores to, without reading the node; None if
    they are no box.
    """
    own = [op for op in accesses(nest) if op.node == reset.node]
    if len(own) != 1 or not isinstance(own[0], StoreOp) or own[0].positions or nest.clashing:
        return None
    sizes, box = dict(nest.space.data), list[range]()
    used = [name for index in own[0].indices.data for name in index.names]
    if len(used) != len(set(used)):
        return None
    for index in own[0].indices.data:
        if len(index.terms) > 1 or any(step != 1 or name not in sizes for name, step in index.terms):
            return None
        size = sizes[index.names[0]] if index.names else 1
        box.append(range(index.constant, index.constant + size))
    return box


def around(shape: Sequence[int], box: Sequence[range]) -> Iterator[Part]:
    """The cells of an array outside of a box: for each axis those before and behind it, together if they are
    equally many; and inside of it along the axes before.
    """
    for axis, (size, inside) in enumerate(zip(shape, box, strict=True)):
        before, behind = inside.start, size - inside.stop
        margins = [(0, before), (inside.stop, behind)]
        sides = [(0, before, 2)] if before == behind else [(start, count, 1) for start, count in margins]
        for start, count, repeated in sides:
            if count:
                ends = [*box[:axis], range(start, start + count), *map(range, shape[axis + 1 :])]
                yield part_of(ends, axis, repeated, inside.stop)


def part_of(ends: Sequence[range], axis: int, sides: int, apart: int) -> Part:
    """A box, on both sides of another that far apart along an axis, if there are two sides."""
    space = [(f"i{k}", len(cells)) for k, cells in enumerate(ends) if len(cells) != 1]
    used = dict(space)
    cells = [Linear.of({f"i{k}": 1} if f"i{k}" in used else {}, one.start) for k, one in enumerate(ends)]
    if sides > 1:
        space.insert(0, ("side", sides))
        cells[axis] += Linear.of({"side": apart})
    return tuple(space), tuple(cells)
