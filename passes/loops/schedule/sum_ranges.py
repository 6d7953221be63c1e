"""Index-set splitting of the sum of a large product (Wolfe, "High Performance Compilers for Parallel
Computing", 1996): nests add one range of it after the other to the results.

The rows of a range are shorter, so that a strip in the second-level cache has more of them and panels are
read for fewer strips, while results are read and written once more for each range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.tile_cost import L2_WAY
from ocannl.passes.analysis.nests import names_in, operations
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, loads_of
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import loads_in, sum_of_products
from ocannl.passes.loops.schedule.strips import FITS, strip
from ocannl.passes.rewrites.indices import substitute_indices

# The most ranges, the least points of one, those where no strip of the whole sum stays in the second-level
# cache, and what points are a multiple of.
MOST, LONG, SHORT, STEP = 8, 512, 256, 64
# The tiles of rows of a range that have a part of the second-level cache at most; how many times the bytes of
# results count for each range, whose tiles lie on many pages; and the part of the bytes from beyond it for
# which ranges pay.
TILES, PART, AGAIN, PAYS = 8, 1 / 3, 6, 4 / 5


@dataclass(frozen=True)
class Product:
    """A product of matrices, with its tile, and how far apart rows are in memory."""

    rows: int
    height: int
    columns: int
    width: int
    depth: int
    bytes: int
    pitch: int

    def traffic(self, size: int, target: TargetDescription) -> float:
        """The bytes that come from beyond the second-level cache, in ranges of so many points."""
        panels, results = self.columns * self.depth * self.bytes, self.rows * self.columns * self.bytes
        again = AGAIN * results * ((self.depth - 1) // size)
        if panels * size > target.last_level_bytes * self.depth:  # each panel is read for all rows
            return self.columns // self.width * self.rows * self.depth * self.bytes + again
        points = strip(self.rows, self.height, self.rows * size * self.bytes, target)
        return math.inf if points is None else -(-self.rows // points) * panels + again

    def stays_whole(self, target: TargetDescription) -> bool:
        """Whether a strip of whole rows stays in the second-level cache, while one panel is read and the next
        one fetched.
        """
        points = strip(self.rows, self.height, self.rows * self.depth * self.bytes, target)
        return (
            points is not None
            and (points + 2 * self.width) * self.depth * self.bytes <= FITS * target.l2_bytes
        )

    def ranges(self, target: TargetDescription) -> list[int]:
        """The points of ranges for whose strips there is room: long ones, or shorter ones where no strip of
        the whole sum stays near.
        """
        long, short = (
            [size for size in ranges(self.depth, least) if self.fits(size, target)] for least in (LONG, SHORT)
        )
        return long or ([] if self.stays_whole(target) else short)

    def fits(self, size: int, target: TargetDescription) -> bool:
        """Whether the second-level cache has room for a strip of rows of a range, which stand in all of its
        sets, or only in those to which multiples of a power of two lead.
        """
        points = strip(self.rows, self.height, self.rows * size * self.bytes, target)
        part = min(1.0, size * self.bytes / math.gcd(L2_WAY, self.pitch))
        return (
            TILES * self.height * size * self.bytes <= PART * target.l2_bytes
            and points is not None
            and points * size * self.bytes <= FITS * part * target.l2_bytes
        )


def best_range(nest: NestOp, choice: Choice, target: TargetDescription) -> int | None:
    """The points of a range of the sum that a nest stores, in which the fewest bytes come from beyond the
    second-level cache; None where those of the whole sum are not many more.
    """
    product = packed_product(nest, choice)
    if product is None or product.rows * product.depth * product.bytes <= FITS * target.l2_bytes:
        return None
    best = min(product.ranges(target), key=lambda size: product.traffic(size, target), default=product.depth)
    pays = product.traffic(best, target) < PAYS * product.traffic(product.depth, target)
    return best if pays else None


def ranges(depth: int, least: int) -> Iterator[int]:
    """The points of all ranges but the last one, of at least so many points."""
    for count in range(2, min(MOST, depth // least) + 1):
        yield STEP * math.ceil(depth / (count * STEP))


def packed_product(nest: NestOp, choice: Choice) -> Product | None:
    """The product of matrices that a nest stores, whose columns are read from packed panels; None if it does
    anything else.
    """
    found, (rows, lanes) = sum_of_products(nest), (choice.schedule.rows, choice.schedule.lanes)
    if found is None or rows is None or lanes is None or not is_stored_only(nest, found):
        return None
    sizes, summed = dict(nest.space.data), dict(found.space.data)
    if sizes.keys() != {rows[0], lanes[0]} or len(summed) != 1 or sizes[lanes[0]] % lanes[1]:
        return None
    loads = loads_of(nest)
    packed = [loads[number] for number in choice.packed]
    across, along = (
        [op for op in loads_in(found) if name in names_in(op.indices.data)] for name, _ in (rows, lanes)
    )
    if len(across) != 1 or along != packed or across == along:
        return None
    bytes, (depth,) = element_bytes(across[0].node), summed.values()
    pitch = bytes * address_of(across[0]).stride(rows[0])
    return Product(sizes[rows[0]], rows[1], sizes[lanes[0]], lanes[1], depth, bytes, pitch)


def is_stored_only(nest: NestOp, found: ReduceOp) -> bool:
    """Whether a nest stores a sum and does nothing else, so that its cells can have a part of it."""
    ops = list(nest.body.block.ops)
    stores = [op for op in ops if isinstance(op, StoreOp)]
    return len(stores) == 1 and stores[0].operands[0] is found.result and ops == [found, *stores]


def split_in_ranges(nest: NestOp, size: int) -> list[NestOp]:
    """Leaves the first range of its sum to a nest; returns those that add the others to its results."""
    (found,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    ((name, depth),) = found.space.data
    others = [of_range(nest, name, start, min(size, depth - start)) for start in range(size, depth, size)]
    found.properties["space"] = SpaceAttr(((name, size),))
    return others


def of_range(nest: NestOp, name: str, start: int, size: int) -> NestOp:
    """A nest that adds one range of a sum to what another one stores."""
    part = nest.clone()
    part.properties["label"] = StringAttr(f"{nest.label.data} from {start}")
    found, store = part.body.block.ops
    assert isinstance(found, ReduceOp)
    assert isinstance(store, StoreOp)
    found.properties["space"] = SpaceAttr(((name, size),))
    substitute_indices(operations(found.body.block), {name: Linear.of({name: 1}, start)})
    before = LoadOp(store.node, store.indices.data)
    total = arith.AddfOp(before.result, found.result)
    derive([before, total], nest.location)
    Rewriter.insert_op([before, total], InsertPoint.before(store))
    store.operands[0] = total.result
    return part
