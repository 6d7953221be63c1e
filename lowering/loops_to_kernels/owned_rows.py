"""Nests that accumulate at positions found at run time, such as gradients of embeddings: blocks own rows.

A block goes through all points, in order, and does those whose position is one of its rows. To find them its
threads first look through chunks of the points together, and note which have some; all then go through these.
So no two blocks store to one cell, and sums do not depend on the order of blocks.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import POSITION, Linear, Space
from ocannl.dialects.kernel import BarrierOp, ForOp
from ocannl.dialects.kernel.condition import IfOp
from ocannl.dialects.kernel.gpu import CONCURRENT_BLOCKS, PROCESSORS, THREADS, WARP
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import builder_for
from ocannl.dialects.scalar.precisions import is_float
from ocannl.lowering.loops_to_kernels.draft import Draft, detached, guarded
from ocannl.passes.analysis.nests import operations, points
from ocannl.passes.analysis.patterns.one_hot import variables_of
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.schedules.strides import in_memory_order, strides
from ocannl.passes.analysis.values.slices import backward_slice, slice_in
from ocannl.passes.rewrites.indices import Copier

# With fewer points to go through, one block does all of them.
LEAST_POINTS = 32
# Points of a chunk, and the chunks of which a block notes whether they have some of its rows.
CHUNK, MOST_CHUNKS = 32, 4096
VECTOR = 4


@dataclass(frozen=True)
class Scatter:
    """A nest that stores at a `position` along a node's axis; points of `serial` variables may meet there.

    Its other variables are `column`, along which threads have neighbouring cells, and `others`.
    """

    store: StoreOp
    position: PositionOp
    serial: Space
    column: str | None
    others: Space


def find_scatter(nest: NestOp) -> Scatter | None:
    """The only store of a nest, if its points meet only in cells whose row is found by serial variables."""
    ops, clashing = operations(nest.body.block), nest.clashing
    stores = [op for op in ops if isinstance(op, StoreOp)]
    serial = tuple((name, size) for name, size in nest.space.data if name in clashing)
    position = position_of(stores[0]) if len(stores) == 1 else None
    if position is None or position.parent is not nest.body.block or points(serial) < LEAST_POINTS:
        return None
    (store,) = stores
    touching = [op for op in ops if isinstance(op, LoadOp) and op.node is store.node]
    cell = (store.indices, tuple(store.positions))
    found_by = backward_slice([position.position])
    if any((op.indices, tuple(op.positions)) != cell or op in found_by for op in touching):
        return None
    sizes = dict(nest.space.data)
    free = [name for name, size in nest.space.data if name not in clashing and size > 1]
    *_, column = in_memory_order(nest, free) or [None]
    if column in variables_of(position.number):
        return None
    others = [(name, sizes[name]) for name in nest.space.names if name not in clashing and name != column]
    return Scatter(store, position, serial, column, tuple(others))


def position_of(store: StoreOp) -> PositionOp | None:
    """The position that is the index along an axis of the stored node."""
    for number, position in enumerate(store.positions):
        is_axis = any(index.variable == f"{POSITION}{number}" for index in store.indices.data)
        if is_axis and isinstance(position.owner, PositionOp):
            return position.owner
    return None


def owned_rows(nest: NestOp) -> LaunchOp | None:
    """A kernel whose blocks own rows of what a nest accumulates into, if it is such a nest."""
    found = find_scatter(nest)
    return None if found is None else OwnedRows(nest, found).launch()


class OwnedRows:
    """The construction of a kernel from a nest.

    Attributes:
        chunk: the points of a chunk, along the innermost serial variable.
        across, along: what tells the threads of a block apart when they look through chunks: `rounds` and
            `lanes` of them, along the outer serial variables and along the innermost one.
        low, count: the first row of a block, and how many it has.
    """

    def __init__(self, nest: NestOp, found: Scatter) -> None:
        self.nest, self.found, self.draft = nest, found, Draft.of(nest)
        *self.outer, (self.inner, size) = found.serial
        self.chunk = chunk_of(size, points(tuple(self.outer)))
        self.chunks = size // self.chunk
        self.place_variables()

    def place_variables(self) -> None:
        """Decides which variables are of the grid, of the block and of registers."""
        draft, column = self.draft, self.found.column
        width = 1 if column is None else self.width(column)
        cells = 1 if column is None else draft.sizes[column]
        threads = min(THREADS, max(WARP, power_of_two(-(-cells // width))))
        self.lanes = min(threads, power_of_two(self.chunks)) if self.outer else threads
        self.rounds = threads // self.lanes
        owner = draft.names.fresh("owner")
        draft.grid += [(owner, 1), *self.found.others]
        parts = [("reg", width), ("lane", self.lanes), ("turn", self.rounds)]
        if column is not None:
            fresh = draft.compose(column, parts)
        else:  # one thread is enough for a cell
            fresh = {suffix: [(draft.names.fresh(suffix), size)] for suffix, size in parts if size > 1}
            draft.bounds += [Bound(Linear.var(name), 1) for part in fresh.values() for name, _ in part]
        draft.registers += fresh.get("reg", ())
        # The elements of one access are all inside of a row, or all outside.
        first = {name: Linear() for name, _ in draft.registers}
        draft.bounds = [
            Bound(bound.index.substitute(first), bound.below - width + 1) for bound in draft.bounds
        ]
        draft.block += [*fresh.get("turn", ()), *fresh.get("lane", ())]
        self.across, self.along = (
            Linear.of({name: 1 for name, _ in fresh.get(part, ())}) for part in ("turn", "lane")
        )
        rows, blocks = self.found.position.size.data, points(tuple(draft.grid))
        self.count = -(-rows // max(1, min(rows, PROCESSORS * CONCURRENT_BLOCKS // blocks)))
        draft.grid[0] = (owner, -(-rows // self.count))
        self.low = Linear.var(owner) * self.count

    def width(self, column: str) -> int:
        """The neighbouring cells of a row that a thread has: those of one access to memory."""
        if self.draft.sizes[column] % VECTOR:
            return 1
        return VECTOR if set(strides(operations(self.nest.body.block), column)) <= {0, 1} else 1

    def launch(self) -> LaunchOp:
        draft, names = self.draft, self.draft.names
        sizes = [*(size for _, size in self.outer), self.chunks]
        flags = SharedOp(MemRefType(i32, sizes))
        block, inside = names.fresh(f"{self.inner}_chunk"), names.fresh(f"{self.inner}_inside")
        looking = self.look(flags.result)
        draft.values[self.inner] = Linear.var(block) * self.chunk + Linear.var(inside)
        own = slice_in(self.nest.body.block, [self.found.position.position])
        ops = detached(self.nest)
        draft.substitute(ops)
        tests, is_own = self.is_own(self.found.position)
        done = IfOp(is_own, Region(Block([op for op in ops if op not in own])))
        chunk = ForOp(((inside, self.chunk),), Region(Block([*own, *tests, done])))
        flag = LoadOp(flags.result, [*(Linear.var(name) for name, _ in self.outer), Linear.var(block)])
        b = builder_for(i32)
        has_some = b.int_cmp("ne", flag.result, b.int_const(0, i32))
        body = [flag, *b.ops, IfOp(has_some, Region(Block([chunk])))]
        through = ForOp((*self.outer, (block, self.chunks)), Region(Block(body)))
        return draft.launch(self.nest, [flags, *looking, BarrierOp(), *guarded(draft.bounds, [through])])

    def look(self, flags: SSAValue) -> list[Operation]:
        """Notes which chunks have points of the block's rows; each thread looks through some of them."""
        names, inside = self.draft.names, self.draft.names.fresh(f"{self.inner}_inside")
        most = max(self.outer, key=lambda variable: variable[1], default=("", 1))
        space: list[tuple[str, int]] = []
        bounds: list[Bound] = []

        def turns(name: str, size: int, threads: int, thread: Linear) -> Linear:
            """The values of a variable that a thread takes."""
            value, step = thread, names.fresh(f"{name}_step")
            if size > threads:
                space.append((step, -(-size // threads)))
                value += Linear.var(step) * threads
            if size % threads:
                bounds.append(Bound(value, size))
            return value

        at = {
            name: turns(name, size, *((self.rounds, self.across) if (name, size) == most else (1, Linear())))
            for name, size in self.outer
        }
        chunk = turns(self.inner, self.chunks, self.lanes, self.along)
        place = [*at.values(), chunk]
        copier = Copier(names, {**at, self.inner: chunk * self.chunk + Linear.var(inside)})
        copied = [copier.copy(op) for op in slice_in(self.nest.body.block, [self.found.position.position])]
        position = copier.values[self.found.position.position].owner
        assert isinstance(position, PositionOp)
        tests, is_own = self.is_own(position)
        number = arith.ExtUIOp(is_own, i32)
        body = [*copied, *tests, number, YieldOp(number.result)]
        reduce = ReduceOp("or", ((inside, self.chunk),), Region(Block(body)), i32)
        ops = guarded(bounds, [reduce, StoreOp(reduce.result, flags, place)])
        return [ForOp(tuple(space), Region(Block(ops)))] if space else ops

    def is_own(self, position: PositionOp) -> tuple[list[Operation], SSAValue]:
        """Whether a position is one of the block's rows: the operations, and the truth value."""
        type = position.number.type
        low, high = IndexOp(self.low, type), IndexOp(self.low + Linear((), self.count), type)
        b = builder_for(type)
        zero = b.const(0.0) if is_float(type) else b.int_const(0, i64 if type == i64 else i32)
        row = b.select(position.inside, position.number, zero)
        compare, (least, below) = (b.cmp, ("oge", "olt")) if is_float(type) else (b.int_cmp, ("sge", "slt"))
        is_own = b.bit_op(arith.AndIOp, compare(least, row, low.result), compare(below, row, high.result))
        return [low, high, *b.ops], is_own


def chunk_of(size: int, times: int) -> int:
    """The points of a chunk along a variable that others repeat: the least good number of them of which there
    are not too many.
    """
    parts = divisors(size, size)
    return next((part for part in parts if part >= CHUNK and size // part * times <= MOST_CHUNKS), size)


def power_of_two(number: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (number - 1).bit_length()
