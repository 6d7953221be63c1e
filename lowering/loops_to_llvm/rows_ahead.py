"""Prefetches of the rows of a large matrix, one register tile ahead.

The rows of a tile are as many streams. Where they are neighbours, they are too short for a hardware
prefetcher to run ahead of them; where they are apart, each goes on in the next tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import Operation

from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.precisions import is_float
from ocannl.lowering.placement import Placement
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.far_arrays import FAR, array_bytes, is_far
from ocannl.passes.analysis.patterns.word_products import DEPTH, WordFactor, word_product

# The bytes that a stream of rows is prefetched ahead, at least, and those that neighbouring rows are; and
# those of rows that are too short to be streams by themselves, between such of which many make none and such
# that are long.
AHEAD, TILES_AHEAD, SHORT, LONG = 2**10, 2**13, 2**8, 2**13
# The bytes of a way of a first-level cache, and how many rows of two tiles may meet in a set, which has other
# lines too.
WAY, ROOM = 2**12, 3


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a matrix that are read one after the other: elements from one to the next, their bytes, and
    whether they are decoded first, which takes longer than to read them, and whether several sums read them.
    """

    stride: int
    bytes: int
    are_decoded: bool
    are_shared: bool = False

    @property
    def make_streams(self) -> bool:
        """Whether rows that are apart are read faster than neighbours."""
        return not self.are_decoded and SHORT <= self.bytes < LONG

    def distance(self, height: int, apart: int) -> int:
        """How far away, in elements, what a later tile reads in place of the same row of this one is."""
        tile, ahead = (height, TILES_AHEAD) if apart == 1 else (1, AHEAD)
        return -(-ahead // (tile * self.bytes)) * tile * self.stride


def rows_ahead(placement: Placement, schedule: Schedule) -> dict[Operation, Rows]:
    """The loads of large arrays whose rows are contiguous along the lanes of a reduction, and which each tile
    reads anew: of a matrix that a product with a vector reads once. Of tiles of one row only bytes are
    prefetched: the hardware runs ahead of others.
    """
    own = [level.variable for level in placement.levels if level.size > 1]
    if schedule.lanes is None or not own:
        return {}
    row, lane = own[-1] if schedule.rows is None else schedule.rows[0], schedule.lanes[0]
    words = {factor.load: factor for factor in word_factors(placement)}
    found: dict[Operation, Rows] = {}
    firsts: dict[object, Operation] = {}
    for op, address in placement.addresses.items():
        if not isinstance(op, LoadOp) or op.positions or lane in own:
            continue
        if schedule.rows is None and element_bytes(op.node) > 1:
            continue
        if address.stride(lane) != (DEPTH if op in words else 1):
            continue
        first = firsts.get(same := cells_of(placement, op))
        if first is not None:
            found[first] = replace(found[first], are_shared=True)
        elif row in own and all(address.stride(variable) for variable in own) and is_far(op):
            stride = address.stride(row)
            bytes = abs(stride) * element_bytes(op.node)
            is_whole = op in words and not words[op].steps
            found[op] = Rows(stride, bytes, not is_whole and not is_float(element_type(op.node)))
            firsts[same] = op
    return found


def cells_of(placement: Placement, op: LoadOp) -> object:
    """Equal for loads of the same cells, also in sums of their own, whose loops have other names."""
    reductions = [reduction.levels for reduction in placement.reductions.values()]
    sizes = {level.variable: level.size for levels in (placement.levels, *reductions) for level in levels}
    address = placement.addresses[op]
    loops = sorted((stride, str(sizes.get(name, name))) for name, stride in address.terms)
    return op.node, address.constant, tuple(loops)


def word_factors(placement: Placement) -> Iterator[WordFactor]:
    """The loads of four neighbours along each lane, whose products are summed."""
    for reduction in placement.reductions:
        product = word_product(reduction)
        yield from () if product is None else product.factors


@dataclass(frozen=True, slots=True)
class NextRows:
    """How far away, in elements, each row of the next tile is, and the loop along which rows are read."""

    distance: int
    variable: str


def product_rows_ahead(placement: Placement, schedule: Schedule) -> dict[Operation, NextRows]:
    """The rows of the next tile of large matrices whose elements a product of matrices reads one by one,
    where the innermost loop goes from one tile of rows to the next. Those of a strip are in a cache.
    """
    if schedule.rows is None or schedule.lanes is None or schedule.strips is not None:
        return {}
    (row, height), lane = schedule.rows, schedule.lanes[0]
    loops = [level.variable for level in placement.levels if level.size > schedule.tile(level.variable)]
    if not loops or loops[-1] != row:
        return {}
    found: dict[Operation, NextRows] = {}
    for reduction in placement.reductions.values():
        last = reduction.levels[-1]
        for op in last.ops:
            address = placement.addresses.get(op)
            if not isinstance(op, LoadOp) or address is None or op.positions or array_bytes(op.node) < FAR:
                continue
            stride = address.stride(row)
            is_row = address.stride(last.variable) == 1 and not address.stride(lane) and stride >= last.size
            if is_row and fullest_set(2 * height, stride * element_bytes(op.node)) <= ROOM:
                found[op] = NextRows(height * stride, last.variable)
    return found


def fullest_set(rows: int, stride: int) -> int:
    """The most of some rows, so many bytes from each other, that meet in a set of a first-level cache."""
    return max(Counter(row * stride % WAY // LINE for row in range(rows)).values())
