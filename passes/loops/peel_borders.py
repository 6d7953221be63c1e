"""`peel-borders`: sums over windows of an image leave out the zeros around it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import functions, nests_of, operations, points
from ocannl.passes.analysis.patterns.window_pieces import Piece, pieces_of
from ocannl.passes.analysis.patterns.zeros_around import Box, zeros_around
from ocannl.passes.rewrites.indices import substitute_indices

# The multiplications of a sum for which more nests pay, the part of them that has to be left out, and how
# many nests one becomes at most.
LARGE, SAVED, PARTS = 2**22, 0.03, 4


@dataclass(frozen=True)
class PeelBordersPass(ModulePass):
    """Loop peeling by index-set splitting (Wolfe, "High Performance Compilers for Parallel Computing", 1996):
    where windows at the border of an image reach into zeros around it, the positions there become nests of
    their own, which sum over the offsets inside of the image alone.

    A nest keeps its schedule, whose tile and vectors do not run along the positions that are split.
    """

    name = "peel-borders"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for step, boxes in zeros_around(func).items():
                if isinstance(step, NestOp | GroupOp):
                    for nest in nests_of(step):
                        peel(nest, boxes)


@dataclass(frozen=True)
class Border:
    """A loop of a nest and one of its sum, of which pieces lie inside of an image."""

    own: str
    summed: str
    pieces: tuple[Piece, ...]

    @property
    def points(self) -> int:
        return sum(piece.points for piece in self.pieces)


def peel(nest: NestOp, boxes: Mapping[SSAValue, Box]) -> None:
    """Splits a nest at borders, if that pays."""
    found = windows_of(nest, boxes)
    if found is None:
        return
    reduction, load = found
    if points(nest.space.data) * points(reduction.space.data) < LARGE:
        return
    sizes = dict(nest.space.data) | dict(reduction.space.data)
    borders = list(borders_of(nest, reduction, load, boxes[load.node]))
    while math.prod(len(border.pieces) for border in borders) > PARTS:
        borders.remove(max(borders, key=lambda border: len(border.pieces)))
    kept = math.prod(border.points / sizes[border.own] / sizes[border.summed] for border in borders)
    if kept > 1 - SAVED:
        return
    parts = list(itertools.product(*(border.pieces for border in borders)))
    parts.sort(key=lambda pieces: math.prod(piece.points for piece in pieces))
    for pieces in parts[:-1]:
        border = nest.clone()
        border.properties["label"] = StringAttr(f"{nest.label.data} border")
        Rewriter.insert_op(border, InsertPoint.after(nest))
        restrict(border, borders, pieces)
    restrict(nest, borders, parts[-1])


def windows_of(nest: NestOp, boxes: Mapping[SSAValue, Box]) -> tuple[ReduceOp, LoadOp] | None:
    """The only sum of a nest, and its factor that is read from a node with zeros around."""
    sums = [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    schedule = None if nest.schedule is None else nest.schedule.data
    if len(sums) != 1 or nest.clashing or schedule is None or schedule.dot or schedule.strips:
        return None
    (found,) = sums
    product = found.yielded.owner
    if found.accum.data != "add" or found.where is not None or not isinstance(product, arith.MulfOp):
        return None
    loads = [factor.owner for factor in product.operands if isinstance(factor.owner, LoadOp)]
    return next(((found, load) for load in loads if load.node in boxes and not load.positions), None)


def borders_of(nest: NestOp, reduction: ReduceOp, load: LoadOp, box: Box) -> Iterator[Border]:
    """The loops over positions at whose ends windows reach out of a box, and that a schedule lets split: each
    loop once, also where it moves windows along several axes.
    """
    assert nest.schedule is not None
    schedule, own, summed = nest.schedule.data, dict(nest.space.data), dict(reduction.space.data)
    tiles = {name for tile in schedule.tiles for name in tile[0].split("*")}
    inner = {name for names in schedule.merged for name in names[1:]}
    merged, taken = {name for names in schedule.merged for name in names}, set[str]()
    for index, inside in zip(load.indices.data, box, strict=True):
        names = sorted(index.names, key=lambda name: name in summed)
        if len(names) != 2 or names[0] not in own or names[1] not in summed:
            continue
        position, offset = names
        if position in tiles | merged | taken or offset in tiles | inner | taken:
            continue
        pieces = tuple(pieces_of(index, position, own[position], offset, summed[offset], inside))
        if all(piece.summed for piece in pieces):
            taken |= {position, offset}
            yield Border(position, offset, pieces)


def restrict(nest: NestOp, borders: Sequence[Border], pieces: Sequence[Piece]) -> None:
    """Leaves some points of loops to a nest, and of its sum."""
    left: dict[str, range] = {}
    for border, piece in zip(borders, pieces, strict=True):
        left |= {border.own: piece.own, border.summed: piece.summed}
    for op in (nest, *operations(nest.body.block)):
        if isinstance(op, NestOp | ReduceOp):
            space = tuple((name, len(left.get(name, range(size)))) for name, size in op.space.data)
            op.properties["space"] = SpaceAttr(space)
    places = {name: Linear.of({name: 1}, values.start) for name, values in left.items() if values.start}
    substitute_indices(operations(nest.body.block), places)
