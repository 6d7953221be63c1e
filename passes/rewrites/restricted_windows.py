"""Nests over some of the positions of windows, and some of their offsets."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.loops import NestOp, ReduceOp
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.window_pieces import Border, Piece
from ocannl.passes.rewrites.indices import substitute_indices


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
