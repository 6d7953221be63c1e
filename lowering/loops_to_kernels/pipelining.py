"""Software pipelining of reductions over tiles in shared memory, with several buffers.

Each operand has a ring of arrays, one for each stage of the pipeline. While the block works on the tiles of
one step, asynchronous copies bring those of the next steps (as in CUTLASS, "multistage" pipelines). One
barrier a step is enough: a buffer that is overwritten was last read a step ago; two steps ago where products
are in flight when the next step begins, so that tensor cores always have work. Where the reduction has
several variables, as a convolution has, steps are counted over all of them, so that the pipeline goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, NoneAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, Space, identity_map
from ocannl.dialects.index.memref import RING, SWIZZLED, SWIZZLED_RING, element_bytes, element_type
from ocannl.dialects.kernel import BarrierOp, CommitOp, CopyOp, WaitOp, WhereOp
from ocannl.dialects.kernel.gpu import ASYNC_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.kernel.mma import WaitProductsOp
from ocannl.dialects.kernel.point import Numbered, PointOp, numbered
from ocannl.dialects.loops import ReduceOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.draft import Draft

# Stages that are needed for products in flight: that of the last step, and that of this one.
STAGES_IN_USE = 2


@dataclass(frozen=True)
class TiledOperand:
    """An operand whose tile lies in shared memory.

    Attributes:
        node, indices: what is loaded.
        side: the nest's variable along which that moves, but for that of the reduction.
        tile: how many of its values a block needs.
        deep_rows: whether elements along the reduced variable are neighbours in shared memory.
        padding: elements added to each row there.
        is_swizzled: whether pieces of rows change places there.
        merged: the nest's variables whose points, in order, `side` counts, where it is none of the nest.
    """

    node: SSAValue
    indices: Map
    side: str
    tile: int
    deep_rows: bool
    padding: int
    is_swizzled: bool = False
    merged: Space = ()

    def shape(self, depth: int) -> tuple[int, int]:
        """The shape of a tile in shared memory."""
        rows, columns = (self.tile, depth) if self.deep_rows else (depth, self.tile)
        return rows, columns + self.padding

    def bytes(self, depth: int) -> int:
        rows, columns = self.shape(depth)
        return rows * columns * element_bytes(self.node)

    def place(self, side: Linear, deep: Linear) -> Map:
        """Where an element of the tile lies in shared memory."""
        return (side, deep) if self.deep_rows else (deep, side)


@dataclass(frozen=True)
class Pipeline:
    """A reduction over the variables `outer` and over `size` values of a variable `k`, in steps of `depth`;
    at most `most_stages` of them are in memory.

    With one stage there is no overlap: tiles are copied while nothing is computed.

    Attributes:
        async_products: the work of a step are products that may be in flight when the next step begins.
    """

    draft: Draft
    operands: Sequence[TiledOperand]
    outer: Space
    k: str
    size: int
    depth: int
    most_stages: int
    async_products: bool = False

    @property
    def steps(self) -> int:
        """Those along `k`, at each point of the outer variables."""
        return -(-self.size // self.depth)

    @property
    def stages(self) -> int:
        return max(1, min(self.most_stages, self.steps * math.prod(size for _, size in self.outer)))

    @property
    def in_flight(self) -> int:
        """How many steps have products in flight when a later one begins."""
        return int(self.async_products and self.stages > STAGES_IN_USE)

    def reduction(
        self,
        accum: str,
        work: Callable[[Sequence[tuple[SSAValue, Map]], Linear, list[Operation]], list[Operation]],
    ) -> tuple[list[Operation], list[Operation], ReduceOp]:
        """The shared arrays, the prologue that fills the pipeline, and the reduction.

        `work` makes the operations of one step, of which the last is a reduction. It takes the arrays, each
        with the slot in its ring, the value of `k`, and the copies for a later step, which it has to insert.
        """
        step = self.draft.names.fresh(f"{self.k}_block")
        space = (*self.outer, (step, self.steps))
        arrays, number = [self.array(operand) for operand in self.operands], numbered(space)
        ahead = self.stages - 1 - self.in_flight
        slot: Map = (number,) if ahead else ()
        later = self.fetch(arrays, space, number + Linear((), ahead)) if ahead else []
        tile = work([(array.result, slot) for array in arrays], self.deep(Linear.var(step)), later)
        before = [op for k in range(ahead) for op in self.fetch(arrays, space, Linear((), k))]
        if ahead:
            done = [WaitProductsOp(self.in_flight)] if self.in_flight else []
            body = [WaitOp(ahead - 1), *done, BarrierOp(), *tile]
        else:
            body = [
                BarrierOp(),
                *self.copies(arrays, identity_map(n for n, _ in space), ()),
                BarrierOp(),
                *tile,
            ]
        return list(arrays), before, self.over(space, accum, body)

    def over(self, space: Space, accum: str, body: Sequence[Operation]) -> ReduceOp:
        """A reduction that accumulates the result of the last operation of its body."""
        value = body[-1].results[0]
        return ReduceOp(accum, space, Region(Block([*body, YieldOp(value)])), value.type)

    def deep(self, step: Linear) -> Linear:
        """The value of the reduced variable at a step; `k` itself counts inside the tile."""
        return step * self.depth + Linear.var(self.k)

    def array(self, operand: TiledOperand) -> SharedOp:
        type = element_type(operand.node)
        assert isinstance(type, FixedBitwidthType)
        shape, is_ring = operand.shape(self.depth), self.stages > 1
        plain, swizzled = (RING, SWIZZLED_RING) if is_ring else (NoneAttr(), SWIZZLED)
        space = swizzled if operand.is_swizzled else plain
        return SharedOp(MemRefType(type, (self.stages, *shape) if is_ring else shape, memory_space=space))

    def fetch(self, arrays: Sequence[SharedOp], space: Space, number: Linear) -> list[Operation]:
        """Starts the asynchronous copies of the tiles of the step with a number, as one group."""
        if not self.outer:
            copies = self.copies(arrays, (number,), (number,))
            return [*self.existing(copies, number), CommitOp()]
        if number.is_constant:
            return [*self.copies(arrays, digits(number.constant, space), (number,)), CommitOp()]
        points = tuple((self.draft.names.fresh(name), size) for name, size in space)
        copies = self.copies(arrays, identity_map(name for name, _ in points), (number,))
        return [PointOp(Numbered(points, number), Region(Block(copies))), CommitOp()]

    def existing(self, copies: Sequence[CopyOp], number: Linear) -> Sequence[Operation]:
        """Copies of a step, those in bulk only where there is such a step: nobody waits for others."""
        if self.last(number) <= self.steps or not any(copy.is_bulk for copy in copies):
            return copies
        return [WhereOp([Bound(number, self.steps)], Region(Block(copies)))]

    def copies(self, arrays: Sequence[SharedOp], point: Map, slot: Map) -> list[CopyOp]:
        """The copies of the tiles of a step, a point of the outer variables and of steps along `k`, into a
        slot of the rings.
        """
        pairs = zip(self.operands, arrays, strict=True)
        return [self.copy(operand, array, point, slot) for operand, array in pairs]

    def copy(self, operand: TiledOperand, array: SharedOp, point: Map, slot: Map) -> CopyOp:
        """The copy of a tile, with coalesced reads where the operand is contiguous along one of its
        variables.
        """
        *outer, step = point
        draft, side = self.draft, operand.side
        grid = dict(draft.grid)
        start = Linear.of({n: c for n, c in draft.values[side].terms if n in grid})
        across, deep = start + Linear.var(side), self.deep(step)
        where: list[Bound] = []
        if self.last(step) * self.depth > self.size:
            where.append(Bound(deep, self.size))
        at = Numbered(operand.merged, across) if operand.merged else None
        if at is None and draft.sizes[side] % operand.tile:
            where.append(Bound(across, draft.sizes[side]))
        space: Space = ((self.k, self.depth), (side, operand.tile))
        if abs(flatten(operand.node, operand.indices).stride(self.k)) == 1:
            space = space[::-1]
        values = {name: at for (name, _), at in zip(self.outer, outer, strict=True)}
        values |= {self.k: deep, side: across}
        source = tuple(index.substitute(values) for index in operand.indices)
        target = (*slot, *operand.place(Linear.var(side), Linear.var(self.k)))
        pair = (operand.node, source), (array.result, target)
        fits = slot and operand.is_swizzled and at is None
        bulk = in_bulk(*pair, space, where) if fits else None
        if fits and bulk is None and self.size % self.depth == 0:
            # The end of a part of an axis is none of the axis; copies of steps that are none do not run.
            bulk = in_bulk(*pair, space, [bound for bound in where if bound.index != deep])
        return bulk or whole(*pair, space, where, bool(slot), at)

    def last(self, step: Linear) -> int:
        """The number of steps along `k` up to the last one that an index expression reaches."""
        return step.constant + (self.steps if step.terms else 1)


def digits(number: int, space: Space) -> Map:
    """The point of a space that has a number."""
    found: list[Linear] = []
    for _, size in reversed(space):
        number, digit = divmod(number, size)
        found.append(Linear((), digit))
    return tuple(reversed(found))


def whole(
    source: tuple[SSAValue, Map],
    target: tuple[SSAValue, Map],
    space: Space,
    where: Sequence[Bound],
    is_async: bool,
    at: Numbered | None = None,
) -> CopyOp:
    """A copy of as many elements at a time as alignment allows; asynchronous if hardware can copy so many."""
    single = CopyOp(source, target, space, where, at=at)
    size = element_bytes(source[0])
    counts = [most // size for most in reversed(ASYNC_BYTES) if most > size]
    by = next((count for count in counts if single.fault_of_neighbours(count) is None), 1)
    return CopyOp(source, target, space, where, by=by, is_async=is_async and by * size in ASYNC_BYTES, at=at)


def in_bulk(
    source: tuple[SSAValue, Map], target: tuple[SSAValue, Map], space: Space, where: Sequence[Bound]
) -> CopyOp | None:
    """A copy in bulk, if hardware has such."""
    by = VECTOR_BYTES // element_bytes(source[0])
    copy = CopyOp(source, target, space, where, by=by, is_bulk=True)
    if copy.fault_of_box() is None:
        return copy
    copy.erase()
    return None


def within_block(draft: Draft, name: str) -> Linear:
    """The part of a nest's variable that varies inside a block: its terms in threads and registers."""
    grid = dict(draft.grid)
    return Linear.of({n: c for n, c in draft.values[name].terms if n not in grid})
