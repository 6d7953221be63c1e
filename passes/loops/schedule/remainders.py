"""Index-set splitting (Wolfe, "High Performance Compilers for Parallel Computing", 1996): a product whose
size is not a multiple of a register tile becomes one of whole tiles, whose operands are packed in panels, and
one of the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.loops import NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Chooser
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import best_in_blocks, sum_of_products
from ocannl.passes.rewrites.indices import substitute_indices

# The multiplications of a product for which two nests pay, and the tiles along a variable that is split then.
LARGE, TILES = 2**22, 4
# Those of a smaller one of matrices, and how many lanes of its vectors for each point make it worth a look.
SMALL, WASTED = 2**17, 1.1
# The part of the cycles of one nest that those of two may be, and that where only two have packed operands:
# the model takes unpacked ones for cheaper than they are.
SPLITTING_PAYS, PACKING_PAYS = 0.965, 1.0


@dataclass(frozen=True)
class Splitting:
    """A variable of a nest, and its points in whole tiles."""

    variable: str
    whole: int


def best_splitting(
    nest: NestOp, best: Callable[[NestOp], tuple[float, Choice]], target: TargetDescription
) -> Splitting | None:
    """The splitting of a product of matrices with the fewest cycles; None where one nest is as fast. `best`
    finds the cheapest choice for a nest, with its cycles.
    """
    summed = sum_of_products(nest)
    if summed is None:
        return None
    products = points_of(nest) * math.prod(size for _, size in summed.space.data)
    chooser = None if products < SMALL else Chooser.of(nest, target)
    if chooser is None:  # Or nothing reads the sum.
        return None
    possible = list(splittings(nest, chooser.elements, products))
    if not possible:
        return None
    whole, choice = best_in_blocks(nest, best(nest), target)
    least, found = math.inf, None
    for splitting in possible:
        (cycles, tiled), (of_remainder, _) = [
            best_in_blocks(part, best(part), target) for part in parts(nest.clone(), splitting)
        ]
        pays = PACKING_PAYS if tiled.packed and not choice.packed else SPLITTING_PAYS
        if cycles + of_remainder < min(least, pays * whole):
            least, found = cycles + of_remainder, splitting
    return found


def splittings(nest: NestOp, elements: int, products: int) -> Iterator[Splitting]:
    """The variables that vectors, or pairs of them, cover with a remainder: many of them, or, in a product of
    matrices, with many lanes that count for nothing.
    """
    loops = [(name, size) for name, size in nest.space.data if size > 1]
    for name, size in loops:
        is_wasteful = len(loops) <= 2 and -(-size // elements) * elements >= WASTED * size
        for width in (2 * elements, elements):
            is_long = products >= LARGE and size >= TILES * width
            if size % width and size >= width and (is_long or is_wasteful):
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
