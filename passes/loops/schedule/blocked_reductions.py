"""Cache blocking of long sums of products: a group adds up one block of the sum after the other, so that the
operands of a block stay in the caches for all results (Goto and van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, MemRefType
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, Space, SpaceAttr, identity_map
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.footprints import AccessFootprint
from ocannl.passes.analysis.costs.page_walks import are_walked, walks
from ocannl.passes.analysis.costs.tile_cost import L2_WAY
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import declaration, names_in, operations
from ocannl.passes.analysis.schedules.divisors import divisors, largest_divisor
from ocannl.passes.analysis.schedules.schedule_candidates import Choice, Chooser, loads_of
from ocannl.passes.analysis.targets.target import LARGEST_INSIDE, TargetDescription
from ocannl.passes.loops.schedule.pack import after_declarations
from ocannl.passes.rewrites.indices import substitute_indices
from ocannl.passes.rewrites.rfactor import rfactor

# The points of a block, and those of a sum of which blocks are tried.
LEAST, MOST, LONG = 64, 256, 1024
# Those of a sum that is so long that blocks of most sizes would be too many for the error that is promised.
MOST_OF_LONG, VERY_LONG = 512, 2**16
# The part of the second-level cache that a panel of a deep sum fills; and the rows of results for which a
# panel is read so seldom that making it counts.
DEEP, SELDOM = 3 / 8, 64
# The rows of results with which an operand streams from memory, and how many of its rows side by side.
FEW_ROWS, STREAMED = 16, ((8, 16), (17, 32), (33, 64))
# The blocks of results that threads share; the parts of a sum that they share, at most and at least; and how
# many times the second-level cache the sums of all parts may fill: a thread needs those of one at a time.
SHARED, PARTS, FEWEST_PARTS, PARTS_FILL = 6, 8, 4, 8
# The cycles to load and store a line of partial sums in the second-level cache, and beyond it.
NEAR_LINE, FAR_LINE = 2.0, 6.0
# The operations of a product.
PRODUCT = (LoadOp, arith.MulfOp, arith.ExtFOp, YieldOp)


@dataclass(frozen=True)
class Blocking:
    """A block of a sum: the outer loops, and the part of one loop, if any, that is in a block; whether an
    operand is read in the order of memory; and how many points of that loop are in no block.
    """

    outer: Space
    variable: str
    size: int
    shares_lanes: bool
    rest: int = 0


def blocked_sum(nest: NestOp, target: TargetDescription) -> ReduceOp | None:
    """The sum of products of a nest that may pay to be added up in blocks: a long, a deep or a streaming
    one.
    """
    found = sum_of_products(nest)
    pays = found is not None and (
        is_long(found) or is_deep(nest, found, target) or is_streaming(nest, found, target)
    )
    return found if pays else None


def sum_of_products(nest: NestOp) -> ReduceOp | None:
    """The sum of products of two operands of a nest, on which all of its points depend, and which reads
    nothing that it writes.
    """
    ops = operations_of(nest.body.block)
    sums = [op for op in ops if isinstance(op, ReduceOp)]
    if len(sums) != 1 or nest.clashing or not isinstance(nest.parent_op(), FuncOp | None):
        return None
    (found,) = sums
    loads = loads_in(found)
    written = {op.node for op in ops if isinstance(op, StoreOp)}
    used = {name for op in loads for name in names_in(op.indices.data)}
    return (
        found
        if all(isinstance(op, PRODUCT) for op in found.body.block.ops)
        and found.accum.data == "add"
        and isinstance(found.result.type, Float32Type | Float64Type)
        and len(loads) == 2
        and not any(op.positions or op.node in written for op in loads)
        and used >= set(nest.space.names)
        else None
    )


def is_long(found: ReduceOp) -> bool:
    """Whether a sum is a long one over outer axes of both operands, such as batch and space."""
    return math.prod(size for _, size in found.space.data) >= LONG and not any(
        address_of(op).stride(name) == 1 for op in loads_in(found) for name in found.space.names
    )


def is_deep(nest: NestOp, found: ReduceOp, target: TargetDescription) -> bool:
    """Whether the sum of a product of matrices has so many points that a panel of an operand, of two vectors
    for each, leaves too little of the second-level cache to the tiles that read it, and whether that cache
    can hold a block of each operand; or, for a few rows, is too large to stay near, or waits for each page.
    """
    points = math.prod(size for _, size in found.space.data)
    first, second = loads_in(found)
    rows = {op: own_points(nest, op, other) for op, other in ((first, second), (second, first))}
    if min(rows.values()) <= FEW_ROWS:
        return False
    panel, (name, _) = 2 * target.vector_bytes * points, longest(found)
    if min(rows.values()) <= SELDOM:
        spaces = found.space.data, nest.space.data
        return panel > LARGEST_INSIDE or any(are_walked(op, *spaces) for op in rows)
    return panel > DEEP * target.l2_bytes and all(
        has_room(nest, op, name, count, target) for op, count in rows.items()
    )


def longest(found: ReduceOp) -> tuple[str, int]:
    """The longest loop of a sum."""
    return max(found.space.data, key=lambda extent: extent[1])


def own_points(nest: NestOp, op: LoadOp, other: LoadOp) -> int:
    """The points of a nest along which an operand of a product moves, and the other one does not."""
    names = names_in(op.indices.data) - names_in(other.indices.data)
    return math.prod(size for name, size in nest.space.data if name in names)


def has_room(nest: NestOp, op: LoadOp, summed: str, rows: int, target: TargetDescription) -> bool:
    """Whether rows of an operand that is contiguous along a sum do not stand so far apart, by a multiple of a
    large power of two, that a block of them meets in few sets of the second-level cache.
    """
    address, bytes = address_of(op), element_bytes(op.node)
    if address.stride(summed) != 1:
        return True
    apart = math.gcd(L2_WAY, *(bytes * address.stride(name) for name in nest.space.names))
    return apart <= MOST * bytes or 2 * rows * apart <= target.l2_bytes


def is_streaming(nest: NestOp, found: ReduceOp, target: TargetDescription) -> bool:
    """Whether the second-level cache does not hold an operand that few rows of results need, and whose rows
    are summed: in blocks of some of these it is read in the order of memory, and once.
    """
    own = dict(nest.space.data)
    first, second = loads_in(found)
    for op, other in ((first, second), (second, first)):
        address, around = address_of(op), names_in(other.indices.data)
        rows = math.prod(size for name, size in own.items() if name in around)
        if (
            byte_size(declaration(op.node)) > target.l2_bytes
            and 1 < rows <= FEW_ROWS
            and around.isdisjoint(name for name in own if address.stride(name))
            and any(address.stride(name) == 1 for name in own)
        ):
            return True
    return False


def loads_in(reduction: ReduceOp) -> list[LoadOp]:
    return [op for op in operations_of(reduction.body.block) if type(op) is LoadOp]


def cheapest(
    nest: NestOp, reduction: ReduceOp, found: tuple[float, Choice], target: TargetDescription
) -> tuple[float, Blocking | None, Choice]:
    """The blocking with the fewest cycles, with these and the choice for one block; None where the sum as a
    whole is as fast, which one that reads a large operand across the order of memory never is.
    """
    streamed = list(streamed_blockings(nest, reduction, target))
    whole, packed = best_of(sum_alone(nest), target)
    if not is_long(reduction):
        whole += copy_walks(nest, reduction.space.data, packed)
    least, best, choice = math.inf if streamed else whole, None, found[1]
    points = math.prod(size for _, size in reduction.space.data)
    results = math.prod(size for _, size in nest.space.data) * bytes_of(reduction)
    line = NEAR_LINE if results <= target.l2_bytes // 2 else FAR_LINE
    for blocking, inside in streamed or summed_blockings(nest, reduction, target):
        count = points / math.prod(size for _, size in inside)
        block = sum_alone(nest)
        (inner,) = (op for op in block.body.block.ops if isinstance(op, ReduceOp))
        inner.properties["space"] = SpaceAttr(inside)
        cycles, chosen = best_of(block, target)
        total = count * (cycles + line * results / LINE)
        if total < least:
            least, best, choice = total, blocking, chosen
    return least, best, choice


def copy_walks(nest: NestOp, summed: Space, choice: Choice) -> float:
    """The cycles of page walks of the copies that a choice for a sum of products packs."""
    lanes, loads = choice.schedule.lanes, loads_of(nest)
    width = 1 if lanes is None else lanes[1]
    return sum([walks(loads[k], summed, nest.space.data, width) for k in choice.packed])


def best_in_blocks(
    nest: NestOp, found: tuple[float, Choice], target: TargetDescription
) -> tuple[float, Choice]:
    """The cheapest choice for a nest, which is the one found, or for one block of its sum where that pays,
    with its cycles.
    """
    reduction = blocked_sum(nest, target)
    if reduction is None:
        return found
    cycles, blocking, choice = cheapest(nest, reduction, found, target)
    return found if blocking is None else (cycles, choice)


def best_of(nest: NestOp, target: TargetDescription) -> tuple[float, Choice]:
    chooser = Chooser.of(nest, target)
    assert chooser is not None
    return chooser.best()


def sum_alone(nest: NestOp) -> NestOp:
    """A nest that stores the sum of another, and does nothing of what that one does with it, which runs
    once for all blocks.
    """
    (reduction,) = (op.clone() for op in nest.body.block.ops if isinstance(op, ReduceOp))
    space = nest.space.data
    type = MemRefType(reduction.result.type, [size for _, size in space])
    node = NodeOp("sums", "local", "partial results", type)
    stored = StoreOp(reduction.result, node.result, identity_map(name for name, _ in space))
    return NestOp(nest.label.data, nest.space.data, Region(Block([reduction, stored])))


def streamed_blockings(
    nest: NestOp, reduction: ReduceOp, target: TargetDescription
) -> Iterator[tuple[Blocking, Space]]:
    """The blocks of a streaming sum: of few points, or of more where those would be too many."""
    if is_streaming(nest, reduction, target):
        tried = (list(blockings(reduction.space.data, *sizes, shares_lanes=True)) for sizes in STREAMED)
        yield from next(filter(None, tried), ())


def summed_blockings(
    nest: NestOp, reduction: ReduceOp, target: TargetDescription
) -> Iterator[tuple[Blocking, Space]]:
    """The blocks of a long or a deep sum."""
    if is_long(reduction):
        yield from long_blockings(reduction)
    elif is_deep(nest, reduction, target):
        yield from deep_blockings(reduction)


def deep_blockings(reduction: ReduceOp) -> Iterator[tuple[Blocking, Space]]:
    """The blocks of the longest loop of a deep sum, which need not divide it."""
    name, size = longest(reduction)
    outer = tuple(extent for extent in reduction.space.data if extent[0] != name)
    if size > MOST:
        yield Blocking(outer, name, MOST, True, size % MOST), ((name, MOST),)


def long_blockings(reduction: ReduceOp) -> Iterator[tuple[Blocking, Space]]:
    """The blocks of a long sum."""
    points = math.prod(size for _, size in reduction.space.data)
    is_product = len(reduction.space.data) == 1
    most = MOST_OF_LONG if points > VERY_LONG else MOST
    return blockings(reduction.space.data, LEAST, most, shares_lanes=is_product)


def blockings(
    space: Space, least: int, most: int, *, shares_lanes: bool = False
) -> Iterator[tuple[Blocking, Space]]:
    """The blocks of the inner loops of a sum and a part of one more, with the loops in a block."""
    inner, points = 1, math.prod(size for _, size in space)
    for place in reversed(range(len(space))):
        name, size = space[place]
        for part in divisors(size, most // inner):
            is_part = part > 1 and (place > 0 or part < size)
            if is_part and least <= inner * part and is_accurate(inner * part, points):
                yield Blocking(space[:place], name, part, shares_lanes), ((name, part), *space[place + 1 :])
        inner *= size


def is_accurate(size: int, points: int) -> bool:
    """Whether a product goes through no more additions than in blocks of the most points, of which an
    accumulator adds up as many.
    """
    in_accumulator, of_accumulators, of_blocks = min(size, MOST), (size - 1) // MOST, points / size
    return in_accumulator + of_accumulators + of_blocks <= MOST + points / MOST


def blocked(
    nest: NestOp,
    reduction: ReduceOp,
    blocking: Blocking,
    choice: Choice,
    labels: Names,
    target: TargetDescription,
) -> list[NestOp | GroupOp]:
    """Puts a nest that sets partial sums to zero, and a group that adds up the blocks, before a nest, which
    goes on with the sums; returns these steps.
    """
    func = nest.parent_op()
    assert isinstance(func, FuncOp)
    names = Names.of(func, nest)
    if blocking.rest:
        split_off_rest(reduction, blocking, names)
    sizes = dict(reduction.space.data)
    parts = parts_of(nest, choice.schedule, blocking, names, target)
    factored = rfactor(nest, reduction, labels.fresh(f"{nest.label.data}.sums"), parts, nest.space.data)
    inside = factored.inside
    needed = -(-SHARED // math.prod(size for _, size in parts))
    if choice.packed and blocking.shares_lanes:
        needed = max(needed, shares_that_stay(inside, blocking, target))
    shared = split_results(inside, choice.schedule, blocking, names, needed)
    (part,) = (op for op in inside.body.block.ops if isinstance(op, ReduceOp))
    outer = list(blocking.outer)
    kept = tuple(entry for entry in part.space.data if entry not in outer)
    if blocking.size < sizes[blocking.variable]:
        outer.append((names.fresh(f"{blocking.variable}_block"), sizes[blocking.variable] // blocking.size))
        split = Linear.of({outer[-1][0]: blocking.size, blocking.variable: 1})
        substitute_indices(operations(part.body.block), {blocking.variable: split})
        kept = tuple((name, blocking.size if name == blocking.variable else size) for name, size in kept)
    part.properties["space"] = SpaceAttr(kept)
    for own, count in parts:
        (name, size), *others = outer
        index = Linear.of({own: size // count, name: 1}) if count < size else Linear.var(own)
        substitute_indices(operations(part.body.block), {name: index})
        outer = [(name, size // count), *others] if count < size else others
    group = GroupOp(inside.label.data, [*parts, *shared, *outer], Region(Block([inside])))
    derive([group], nest.location)
    Rewriter.insert_op(factored.node, after_declarations(nest))
    Rewriter.insert_op([factored.before, group], InsertPoint.before(nest))
    return [factored.before, group]


def shares_that_stay(nest: NestOp, blocking: Blocking, target: TargetDescription) -> int:
    """The shares of the results of which the second-level cache holds the operands of a block."""
    (reduction,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    first, second = loads_in(reduction)
    most = max(own_points(nest, first, second), own_points(nest, second, first))
    return -(-most * blocking.size * bytes_of(reduction) // (target.l2_bytes // 2))


def parts_of(
    nest: NestOp, schedule: Schedule, blocking: Blocking, names: Names, target: TargetDescription
) -> Space:
    """The parts of the outermost loop of a sum that threads share, each with sums of its own, where results
    are so small that this moves fewer bytes than reading operands once for each share of the results; none
    where it does not.
    """
    if blocking.shares_lanes or not blocking.outer:
        return ()
    (name, size), *_ = blocking.outer
    alone = sum_alone(nest)
    (reduction,) = (op for op in alone.body.block.ops if isinstance(op, ReduceOp))
    extents = dict(nest.space.data) | dict(reduction.space.data)
    once = sum(read_from_afar(reduction, extents, target))
    shared = split_results(alone, schedule, blocking, Names(set(names.used)), SHARED)
    inside = dict(alone.space.data) | dict(reduction.space.data)
    often = math.prod(count for _, count in shared) * sum(read_from_afar(reduction, inside, target))
    results = math.prod(extents[own] for own, _ in nest.space.data) * bytes_of(reduction)
    count = largest_divisor(size, max(1, min(PARTS, PARTS_FILL * target.l2_bytes // results)))
    if count < FEWEST_PARTS or often - once <= 2 * count * results:
        return ()
    return ((names.fresh(f"{name}_part"), count),)


def read_from_afar(
    reduction: ReduceOp, extents: Mapping[str, int], target: TargetDescription
) -> Iterator[int]:
    """The bytes of each operand that are read while variables run over their extents, of those that the
    second-level cache does not hold.
    """
    for op in loads_in(reduction):
        whole = byte_size(declaration(op.node))
        if whole > target.l2_bytes // 2:
            yield min(whole, AccessFootprint.of(op, set()).size(extents))


def bytes_of(reduction: ReduceOp) -> int:
    return 4 if isinstance(reduction.result.type, Float32Type) else 8


def split_off_rest(reduction: ReduceOp, blocking: Blocking, names: Names) -> None:
    """Leaves whole blocks to a reduction, and adds one of the points that are in none."""
    rest = reduction.clone()
    name, sizes = blocking.variable, dict(reduction.space.data)
    whole = sizes[name] - blocking.rest
    reduction.properties["space"] = SpaceAttr(tuple((sizes | {name: whole}).items()))
    own = names.fresh(name)
    renamed = ((own, blocking.rest) if other == name else (other, size) for other, size in sizes.items())
    rest.properties["space"] = SpaceAttr(tuple(renamed))
    substitute_indices(operations(rest.body.block), {name: Linear.of({own: 1}, whole)})
    both = arith.AddfOp(reduction.result, rest.result)
    derive([rest, both], reduction.location)
    reduction.result.replace_uses_with_if(both.result, lambda use: use.operation is not both)
    Rewriter.insert_op([rest, both], InsertPoint.after(reduction))


def split_results(inside: NestOp, schedule: Schedule, blocking: Blocking, names: Names, needed: int) -> Space:
    """Takes loops out of the nest of a block, which threads can share, for as many points as needed: those
    outside of the tile, and a part of one along it. Of loops that are merged to rows, these are the outer
    ones.
    """
    tile = {name for loop, _ in schedule.tiles for name in loop.split("*")}
    own, shared = dict(inside.space.data), list[tuple[str, int]]()
    for name in schedule.order:
        if name in own and name not in tile and math.prod(size for _, size in shared) < needed:
            shared.append((name, own.pop(name)))
    tiled = shared_tile(schedule, inside.space.data, blocking)
    *merged, name = ("",) if tiled is None else tiled[0].split("*")
    if tiled is not None and merged and not own[name] % tiled[1]:
        for other in merged:
            if math.prod(size for _, size in shared) < needed:
                shared.append((other, own.pop(other)))
    missing = -(-needed // math.prod(size for _, size in shared))
    if tiled is not None and (merged or name in own):
        extent = tiled[1]
        whole, rest = divmod(own[name], extent)
        parts = divisors(whole, missing)[-1] if not rest else 1
        if parts > 1:
            shared.append((names.fresh(f"{name}_block"), parts))
            own[name] //= parts
            split = Linear.of({shared[-1][0]: own[name], name: 1})
            substitute_indices(operations(inside.body.block), {name: split})
    inside.properties["space"] = SpaceAttr(tuple(own.items()))
    return tuple(shared)


def shared_tile(schedule: Schedule, space: Space, blocking: Blocking) -> tuple[str, int] | None:
    """The loop along a tile of which whole tiles cover parts: that of the rows first, or where lanes may be
    shared as well the longer one.
    """
    sizes, tiles = schedule.loops(space), schedule.tiles
    if blocking.shares_lanes:
        tiles.sort(key=lambda tile: -sizes.get(tile[0], 0))
    return next((tile for tile in tiles if tile[0] in sizes and not sizes[tile[0]] % tile[1]), None)
