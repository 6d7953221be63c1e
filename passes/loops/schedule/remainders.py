"""Index-set splitting (Wolfe, "High Performance Compilers for Parallel Computing", 1996): a product whose
size is no multiple of a register tile becomes one of whole tiles, whose operands are packed in panels, and
one of the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.loops import NestOp
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.schedule_candidates import Chooser
from ocannl.passes.analysis.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import best_of, sum_of_products
from ocannl.passes.rewrites.indices import substitute_indices

# The multiplications of a product for which two nests pay.
LARGE = 2**17
# The part of the cycles of one nest that those of two may be, and that where only two have packed operands:
# the model takes unpacked ones for cheaper than they are.
SPLITTING_PAYS, PACKING_PAYS = 0.95, 1.0


@dataclass(frozen=True)
class Splitting:
    """A variable of a nest, and its points in whole tiles."""

    variable: str
    whole: int


def best_splitting(nest: NestOp, target: TargetDescription) -> Splitting | None:
    """The splitting of a product of matrices with the fewest cycles; None where one nest is as fast."""
    found = sum_of_products(nest)
    if found is None or points_of(nest) * math.prod(size for _, size in found.space.data) < LARGE:
        return None
    chooser = Chooser.of(nest, target)
    if chooser is None:  # Nothing reads the sum.
        return None
    whole, choice = chooser.best()
    least, best = math.inf, None
    for splitting in splittings(nest, chooser.elements):
        (cycles, tiled), (of_remainder, _) = [
            best_of(part, target) for part in parts(nest.clone(), splitting)
        ]
        pays = PACKING_PAYS if tiled.packed and not choice.packed else SPLITTING_PAYS
        if cycles + of_remainder < min(least, pays * whole):
            least, best = cycles + of_remainder, splitting
    return best


def splittings(nest: NestOp, elements: int) -> Iterator[Splitting]:
    """The variables that vectors, or pairs of them, cover with a remainder."""
    for name, size in nest.space.data:
        for width in (2 * elements, elements):
            if size % width and size >= width:
                yield Splitting(name, size - size % width)


def split_off_remainder(nest: NestOp, splitting: Splitting) -> NestOp:
    """Leaves the whole tiles to a nest, and puts one with the remainder behind it, which is returned."""
    _, remainder = parts(nest, splitting)
    Rewriter.insert_op(remainder, InsertPoint.after(nest))
    return remainder


def parts(nest: NestOp, splitting: Splitting) -> tuple[NestOp, NestOp]:
    """A nest that has the whole tiles only, and a new one of the remainder."""
    remainder, sizes = nest.clone(), dict(nest.space.data)
    name, whole = splitting.variable, splitting.whole
    remainder.properties["label"] = StringAttr(f"{nest.label.data} remainder")
    remainder.properties["space"] = SpaceAttr(tuple((sizes | {name: sizes[name] - whole}).items()))
    substitute_indices(operations(remainder.body.block), {name: Linear.of({name: 1}, whole)})
    nest.properties["space"] = SpaceAttr(tuple((sizes | {name: whole}).items()))
    return nest, remainder


def points_of(nest: NestOp) -> int:
    return math.prod(size for _, size in nest.space.data)
