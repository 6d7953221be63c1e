"""Kernels of groups over blocks, such as attention: a block of threads goes through some blocks in turn.

The variables of the group in which its points store to different elements are blocks of the GPU; the others,
along which it adds up, are a loop of each. The nests run one after the other, between barriers, each with the
threads where it needs them: products have tiles in registers, rows are shared by neighbours of a warp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.kernel import BarrierOp, CombineOp, CommitOp, ForOp, WaitOp
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import ACROSS
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.accumulators import Accumulator
from ocannl.lowering.loops_to_kernels.block_arrays import TILE_COLUMN, TILE_ROW, BlockArrays
from ocannl.lowering.loops_to_kernels.block_products import WarpThreads, digits, multiply, warp_grid
from ocannl.lowering.loops_to_kernels.draft import Draft, Variables, detached, guarded
from ocannl.lowering.loops_to_kernels.fused_rows import clash, taken_names
from ocannl.lowering.loops_to_kernels.options import KernelOptions
from ocannl.lowering.loops_to_kernels.rows import combine_all
from ocannl.passes.analysis.nests import Accesses, operations, with_reduced
from ocannl.passes.analysis.patterns.contractions import Contraction, find_contraction
from ocannl.passes.analysis.schedules.shared_reductions import long_reductions, needed_before
from ocannl.passes.analysis.schedules.strides import in_memory_order
from ocannl.passes.rewrites.indices import substitute_indices

# The threads along each side of a tile; those of a warp are 4 x 8 of them.
SIDE = 16
ROW_LANES, COLUMN_LANES = 4, 8
VECTOR = 4
# The rows that all threads reduce at a time, and the steps of a product without jumps.
ROWS_AT_A_TIME, UNROLLED = SIDE * SIDE // COLUMN_LANES, 16


def has_products(group: GroupOp) -> bool:
    """Whether a group multiplies matrices, block by block."""
    return any(find_contraction(nest) is not None for nest in group.nests)


def blocks_in_turn(group: GroupOp, options: KernelOptions, kept: Sequence[Accumulator]) -> LaunchOp:
    """The kernel of a group, whose blocks keep what they add up in some nodes until the end."""
    return BlockKernel(group, options, {one.node: one for one in kept}).launch()


@dataclass(frozen=True)
class Lanes:
    """Some of the variables of a block: `index` counts the threads that they tell apart."""

    index: Linear
    count: int


@dataclass
class BlockKernel:
    """The construction of a kernel from a group over blocks.

    Attributes:
        kept: the accumulators.
        before, after: what is done with these before the first block, and after the last one.
        registers: the register variables by what they are for and their size.
        found, grids: the products, and how warps share those on tensor cores.
    """

    group: GroupOp
    options: KernelOptions
    kept: Mapping[SSAValue, Accumulator]
    before: list[Operation] = field(default_factory=list[Operation])
    after: list[Operation] = field(default_factory=list[Operation])
    owned: list[OwnOp] = field(default_factory=list[OwnOp])
    registers: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])

    def __post_init__(self) -> None:
        group = self.group
        self.draft = draft = Draft(taken_names(group), dict(group.space.data))
        draft.names.used |= {TILE_ROW, TILE_COLUMN}
        turns = group.clashing
        draft.grid += [(name, size) for name, size in group.space.data if name not in turns]
        self.turns: Variables = [(name, size) for name, size in group.space.data if name in turns]
        self.arrays = BlockArrays(self.options.shared_bytes)
        self.found = {nest: find_contraction(nest) for nest in group.nests}
        self.grids = {
            nest: warp_grid(nest, product, self.options.tensor_types)
            for nest, product in self.found.items()
            if product is not None
        }
        if any(self.grids.values()):
            self.place_fragments()
        else:
            self.place_tiles()

    def place_tiles(self) -> None:
        """Decides what tells threads apart: places in tiles of their registers."""
        self.row_warp, self.column_warp, self.row_lane, self.column_lane = self.block_variables(
            row_warp=SIDE // ROW_LANES,
            column_warp=SIDE // COLUMN_LANES,
            row_lane=ROW_LANES,
            column_lane=COLUMN_LANES,
        )

    def place_fragments(self) -> None:
        """The same, so that they are also those of fragments for tensor cores."""
        *warps, row_lane, row_half, quarter = self.block_variables(
            warp4=2, warp2=2, warp1=2, row_lane=ROW_LANES, lane_half=2, lane_quarter=ACROSS
        )
        self.row_warp, self.column_warp, self.row_lane = digits((warps[0], warps[1])), warps[2], row_lane
        self.column_lane = row_half * ACROSS + quarter
        self.threads = WarpThreads(
            (warps[0], warps[1], warps[2]), row_lane * 2 + row_half, quarter, self.register
        )

    def block_variables(self, **sizes: int) -> list[Linear]:
        """New variables of the block, the last of which varies fastest."""
        names = [self.draft.names.fresh(name) for name in sizes]
        self.draft.block += zip(names, sizes.values(), strict=True)
        return [Linear.var(name) for name in names]

    def launch(self) -> LaunchOp:
        self.arrays.replace_nodes(self.group)
        nests = list(self.group.nests)
        found = [self.found[nest] for nest in nests]
        for nest, product in zip(nests, found, strict=True):
            if product is not None:
                self.place_operands(nest, product)
        products = {nest for nest, product in zip(nests, found, strict=True) if product is not None}
        for one in self.kept.values():
            if one.nest not in products or len(one.nest.space.data) > 2:
                self.keep_shared(one)
        body: list[Operation] = []
        pending: list[Accesses] = []
        for nest, product in zip(nests, found, strict=True):
            accesses = Accesses.of(operations(nest.body.block))
            if any(clash(accesses, other) for other in pending):
                body.append(BarrierOp())
                pending = []
            pending.append(accesses)
            body += self.lower(nest, product)
        self.draft.registers += [(name, extent) for (_, extent), name in sorted(self.registers.items())]
        return self.draft.launch(self.group, [*self.arrays.arrays, *self.owned, *self.in_turn(body)])

    def in_turn(self, body: list[Operation]) -> list[Operation]:
        """The copies of tiles that are for all blocks, and the loop over these."""
        turns = {name for name, _ in self.turns}
        copies = [tile.copy for tile in self.arrays.tiles.values()]
        moving = [c for c in copies if any(not turns.isdisjoint(index.names) for index in c.source_map.data)]
        fixed = [copy for copy in copies if copy not in moving]
        before: list[Operation] = [*fixed, *([CommitOp()] if fixed else []), *self.before]
        after = [BarrierOp(), *self.after] if self.after else []
        waits = [WaitOp(0), BarrierOp()] if copies else []
        own: list[Operation] = [BarrierOp(), *moving, *([CommitOp()] if moving else []), *waits, *body]
        inside = guarded(self.group.bounds, own)
        loop = [ForOp(tuple(self.turns), Region(Block(inside)))] if self.turns else inside
        return [*before, *loop, *after]

    # Accumulators.

    def keep_shared(self, one: Accumulator) -> None:
        """Keeps what a block adds up in shared memory, or in the node itself where there is no room."""
        array = one.keep_shared(self.arrays.most - self.arrays.bytes)
        if array is None:
            self.before += self.points(one.nest_of(one.starting(one.node, one.at)))
            return
        self.arrays.arrays.append(array)
        at = tuple(Linear.var(name) for name, _ in one.nest.space.data)
        self.before += self.points(one.nest_of(one.starting(array.result, at)))
        total = LoadOp(array.result, at)
        self.after += self.points(one.nest_of([total, StoreOp(total.result, one.node, one.at)]))

    def keep_registers(
        self,
        one: Accumulator,
        accesses: list[LoadOp | StoreOp],
        values: Iterable[Linear],
        bounds: Sequence[Bound],
    ) -> None:
        """Keeps what the threads of a product add up in registers; `accesses` are in their variables."""
        extents = {name: extent for (_, extent), name in self.registers.items()}
        names = [name for value in values for name in value.names if name in extents]
        own = OwnOp(MemRefType(element_type(one.node), [*(extents[name] for name in names)] or [1]))
        place = tuple(Linear.var(name) for name in names) or (Linear(),)
        at = accesses[0].indices.data
        one.redirect(accesses, own, place)
        self.owned.append(own)
        self.before += guarded(bounds, one.starting(own.result, place))
        total = LoadOp(own.result, place)
        self.after += guarded(bounds, [total, StoreOp(total.result, one.node, at)])

    # Nests.

    def lower(self, nest: NestOp, product: Contraction | None) -> list[Operation]:
        """The operations of a nest, with its points or reductions shared by the threads."""
        if product is not None:
            return self.product(nest, product)
        shared = long_reductions(nest)
        first = needed_before(nest, shared) if len(nest.space.data) == 1 else None
        if shared and first is not None and not any(isinstance(op, LoadOp) for op in first):
            return self.reduced_rows(nest, shared, first)
        return self.points(nest)

    def reduced_rows(
        self, nest: NestOp, shared: Sequence[ReduceOp], first: set[Operation]
    ) -> list[Operation]:
        """A row for every few threads of a warp, which combine what they have."""
        ((name, size),) = nest.space.data
        count = ROWS_AT_A_TIME
        index = self.row_lane + self.column_warp * ROW_LANES + self.row_warp * (SIDE // 2)
        step = self.draft.names.fresh(f"{name}_step")
        steps = -(-size // count)
        row = index + (Linear.var(step) * count if steps > 1 else Linear())
        bounds = [Bound(row, size)] if size % count else []
        ops = detached(nest)
        substitute_indices(with_reduced(ops), {name: row})
        needed = [op for op in ops if op in first]
        body = self.combined(needed, set(shared))
        epilogue = [op for op in ops if op not in first]
        for reduce in shared if bounds else ():
            known = () if reduce.where is None else reduce.where.data
            reduce.properties["where"] = BoundsAttr((*known, *bounds))
        firsts = [Bound(Linear.var(name), 1) for name in self.column_lane.names]
        own = [*body, *guarded([*bounds, *firsts], epilogue)]
        return [ForOp(((step, steps),), Region(Block(own)))] if steps > 1 else own

    def combined(self, ops: Sequence[Operation], shared: set[ReduceOp]) -> list[Operation]:
        """Reductions shared by the threads along columns, which combine what they have."""
        whole = self.draft.names.fresh("column_lane")
        place = {whole: self.column_lane}
        made: list[Operation] = []
        for op in combine_all(ops, shared, self.draft, whole, COLUMN_LANES):
            if isinstance(op, ReduceOp):
                substitute_indices(operations(op.body.block), place)
                if op.where is not None:
                    bounds = [Bound(bound.index.substitute(place), bound.below) for bound in op.where.data]
                    op.properties["where"] = BoundsAttr(tuple(bounds))
            if isinstance(op, CombineOp):
                value = op.value
                steps = [CombineOp(op.accum.data, value, name) for name in self.column_lane.names]
                for step in steps:
                    step.operands = [value]
                    value = step.result
                op.result.replace_all_uses_with(value)
                op.erase()
                made += steps
            else:
                made.append(op)
        return made

    def points(self, nest: NestOp) -> list[Operation]:
        """A point for each thread: neighbours along the contiguous variable in a warp, another one between
        warps; in turn along all others.
        """
        sizes = dict(nest.space.data)
        *others, column = in_memory_order(nest, list(nest.space.names)) or [""]
        across = max(others, key=lambda name: sizes[name], default="")
        lanes = Lanes(self.column_lane + self.row_lane * COLUMN_LANES, ROW_LANES * COLUMN_LANES)
        warps = Lanes(self.column_warp + self.row_warp * (SIDE // COLUMN_LANES), SIDE * SIDE // lanes.count)
        space: Variables = []
        bounds: list[Bound] = []
        values: dict[str, Linear] = {}
        for name, threads in ((column, lanes), (across, warps)):
            if not name:
                bounds += [Bound(Linear.var(own), 1) for own in threads.index.names]
                continue
            size = sizes[name]
            step, value = self.draft.names.fresh(f"{name}_step"), threads.index
            if size > threads.count:
                space.append((step, -(-size // threads.count)))
                value += Linear.var(step) * threads.count
            if size % threads.count:
                bounds.append(Bound(value, size))
            values[name] = value
        for name in others:
            if name != across:
                fresh = self.draft.names.fresh(name)
                space.append((fresh, sizes[name]))
                values[name] = Linear.var(fresh)
        ops = detached(nest)
        substitute_indices(with_reduced(ops), values)
        ops = guarded(bounds, ops)
        return [ForOp(tuple(space), Region(Block(ops)))] if space else ops

    # Products.

    def place_operands(self, nest: NestOp, found: Contraction) -> None:
        """Lets a product load its operands from shared memory, as far as there is room."""
        sizes, deep = dict(nest.space.data), dict(found.reduce.space.data)
        for load, side in ((found.left, found.row), (found.right, found.column)):
            is_matrix = len(deep) == 1 and not load.positions and not isinstance(load.node.owner, SharedOp)
            if is_matrix:
                self.arrays.tile(load, (side, sizes[side]), (found.k, deep[found.k]))

    def product(self, nest: NestOp, found: Contraction) -> list[Operation]:
        """A product of matrices: each thread has a tile of it in registers."""
        grid = self.grids[nest]
        if grid is not None:
            values = multiply(found, grid, self.threads, self.draft.names.fresh(f"{found.k}_step"))
            ops = detached(nest)
            substitute_indices(with_reduced(op for op in ops if not isinstance(op, ReduceOp)), values)
            self.keep_sums(ops, values.values(), ())
            return ops
        sizes = dict(nest.space.data)
        rows = self.along(sizes[found.row], "row", address_of(found.left).stride(found.row) == 1)
        columns = self.along(sizes[found.column], "column", address_of(found.right).stride(found.column) == 1)
        others = [
            (self.draft.names.fresh(n), n, s)
            for n, s in nest.space.data
            if n not in (found.row, found.column)
        ]
        values = {found.row: rows, found.column: columns} | {n: Linear.var(fresh) for fresh, n, _ in others}
        bounds = [
            Bound(v, sizes[n])
            for n, v in values.items()
            if n in (found.row, found.column) and sizes[n] % SIDE
        ]
        split(found, self.draft)
        ops = detached(nest)
        substitute_indices(with_reduced(ops), values)
        if not others:
            self.keep_sums(ops, values.values(), bounds)
        ops = guarded(bounds, ops)
        space = tuple((fresh, size) for fresh, _, size in others)
        return [ForOp(space, Region(Block(ops)))] if space else ops

    def keep_sums(self, ops: Sequence[Operation], values: Iterable[Linear], bounds: Sequence[Bound]) -> None:
        """Keeps what operations of a product add up in registers, as far as nodes are accumulators."""
        for node in [op.node for op in ops if isinstance(op, StoreOp) and op.node in self.kept]:
            own = [op for op in ops if isinstance(op, LoadOp | StoreOp) and op.node is node]
            self.keep_registers(self.kept[node], own, values, bounds)

    def along(self, size: int, side: str, is_contiguous: bool) -> Linear:
        """The variable of a side in threads and registers. Neighbours are those of a thread if its operand is
        contiguous along it, else those of a warp.
        """
        lane, warp, lanes = (
            (self.row_lane, self.row_warp, ROW_LANES)
            if side == "row"
            else (self.column_lane, self.column_warp, COLUMN_LANES)
        )
        count = -(-size // SIDE)
        inner = next(width for width in (VECTOR, 2, 1) if count % width == 0) if is_contiguous else 1
        value = (lane + warp * lanes) * inner
        # The last of the sorted names varies fastest: that of neighbouring columns.
        place = {"row": 1, "column": 2}[side]
        for role, extent, step in (
            (f"{place}{side}_reg", inner, 1),
            (f"0{side}_group", count // inner, inner * SIDE),
        ):
            if extent > 1:
                value += Linear.var(self.register(role, extent)) * step
        return value

    def register(self, role: str, extent: int) -> str:
        """A register variable; nests share it."""
        if (role, extent) not in self.registers:
            self.registers[role, extent] = self.draft.names.fresh(role[1:])
        return self.registers[role, extent]


def split(found: Contraction, draft: Draft) -> None:
    """Splits the variable of a product's reduction, so that some steps have no jumps between them."""
    reduce, k = found.reduce, found.k
    size = dict(reduce.space.data)[k]
    if len(reduce.space.data) > 1 or size <= UNROLLED or size % UNROLLED:
        return
    outer = draft.names.fresh(f"{k}_step")
    substitute_indices(operations(reduce.body.block), {k: Linear.of({outer: UNROLLED, k: 1})})
    reduce.properties["space"] = SpaceAttr(((outer, size // UNROLLED), (k, UNROLLED)))
