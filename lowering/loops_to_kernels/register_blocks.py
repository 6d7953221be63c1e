"""Kernels of groups over blocks whose scores stay in the registers of warps (FlashAttention-2's form).

A block of threads has some rows, 16 for each warp, and goes through the blocks of the other side in turn.
Tiles of what is the same for all turns are copied once; those of a turn come by asynchronous copies into a
ring, while the one before is worked on. One barrier a turn is all that warps have to do with each other:
sums, scores and statistics of rows are registers, and rows are reduced by shuffles among the four threads
that share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, NoneAttr, bf16, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map, MapAttr, SpaceAttr
from ocannl.dialects.index.memref import RING, SWIZZLED, SWIZZLED_RING, element_bytes, element_type
from ocannl.dialects.kernel import BarrierOp, CombineOp, CommitOp, CopyOp, ForOp, WaitOp, WhereOp
from ocannl.dialects.kernel.gpu import BANK_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS, FRAGMENTS, ROWS, MmaOp
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.accumulators import Accumulator
from ocannl.lowering.loops_to_kernels.block_products import put_sum
from ocannl.lowering.loops_to_kernels.draft import Draft, detached
from ocannl.lowering.loops_to_kernels.epilogues import Epilogues, Total
from ocannl.lowering.loops_to_kernels.fused_rows import taken_names
from ocannl.lowering.loops_to_kernels.masked_blocks import unswitched
from ocannl.lowering.loops_to_kernels.pipelining import in_bulk, whole
from ocannl.lowering.loops_to_kernels.register_plan import STAGES, Plan, PlannedNest, Work, scores_first
from ocannl.lowering.loops_to_kernels.short_scalars import shorten_scalars
from ocannl.passes.analysis.nests import operations, used_nodes, with_reduced
from ocannl.passes.analysis.patterns.contractions import Contraction
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.indices import substitute_indices

# The variables of copies.
TILE_ROW, TILE_COLUMN = "tile_row", "tile_column"


@dataclass
class Tile:
    """A part of a node in shared memory: for one turn, in a ring, or for all of them."""

    array: SharedOp
    copies: list[CopyOp]
    in_turn: bool


@dataclass
class RegisterKernel:
    """The construction of a kernel from a group with a plan.

    Attributes:
        kept: the accumulators.
        before, body: operations before the first turn, and in each.
        totals: what is added up, by nodes.
        taken: the nests after the group that are part of the kernel.
        bounds: those of the group; with `turned`, variables of the grid that are counted from the end.
        own: arrays of threads in place of nodes.
        row, tile, pair, half: register variables: rows 0 and 8 of a warp's fragments, fragments side by side,
            neighbouring columns of a result, parts of the depth.
    """

    group: GroupOp
    plan: Plan
    kept: Mapping[SSAValue, Accumulator]
    before: list[Operation] = field(default_factory=list[Operation])
    body: list[Operation] = field(default_factory=list[Operation])
    totals: dict[SSAValue, Total] = field(default_factory=dict[SSAValue, Total])
    taken: list[NestOp] = field(default_factory=list[NestOp])
    own: dict[SSAValue, OwnOp] = field(default_factory=dict[SSAValue, OwnOp])
    more: list[OwnOp] = field(default_factory=list[OwnOp])
    tiles: dict[tuple[SSAValue, Map], Tile] = field(default_factory=dict[tuple[SSAValue, Map], Tile])
    fixed: dict[tuple[SSAValue, Map], OwnOp] = field(default_factory=dict[tuple[SSAValue, Map], OwnOp])
    counts: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        group, plan = self.group, self.plan
        self.bounds = group.bounds
        self.from_the_end()
        self.read = [node for node in used_nodes(group) if node not in self.kept]
        self.draft = draft = Draft(taken_names(group), dict(group.space.data))
        draft.names.used |= {TILE_ROW, TILE_COLUMN}
        self.turn, _ = plan.turn
        draft.grid += self.longest_first()
        warp, lane, quarter = (draft.names.fresh(name) for name in ("warp", "row_lane", "quarter"))
        draft.block += [(warp, plan.rows // ROWS), (lane, COLUMNS), (quarter, ACROSS)]
        self.quarter_name = quarter
        self.lane, self.quarter = Linear.var(lane), Linear.var(quarter)
        names = ("deep_half", "row_half", "column_pair", "deep_pair")
        self.half, self.row, self.pair, self.deep_pair = (draft.names.fresh(name) for name in names)
        self.own_place = Linear.of({warp: ROWS, lane: 1, self.row: ROWS // 2})

    def from_the_end(self) -> None:
        """Numbers the blocks along a variable of the grid from its end, if those have more turns: the longest
        work begins first.
        """
        sizes, later = dict(self.group.space.data), dict[str, Linear]()
        for bound in self.bounds:
            for name, coefficient in bound.index.terms:
                if name != self.plan.turn[0] and coefficient < 0:
                    later[name] = Linear.of({name: -1}, sizes[name] - 1)
        self.turned = later
        self.bounds = [Bound(bound.index.substitute(later), bound.below) for bound in self.bounds]
        for nest in self.group.nests:
            substitute_indices(operations(nest.body.block), later)

    def longest_first(self) -> list[tuple[str, int]]:
        """The variables of the grid, those first that tell how many turns a block has: blocks with most of
        them begin first.
        """
        others = [(name, size) for name, size in self.group.space.data if name != self.turn]
        uneven = {name for bound in self.bounds for name in bound.index.names}
        return sorted(others, key=lambda variable: variable[0] not in uneven)

    def tile(self, count: int) -> Linear:
        """A register variable for so many fragments side by side."""
        if count not in self.counts:
            self.counts[count] = self.draft.names.fresh("tile")
        return Linear.var(self.counts[count])

    def columns(self, count: int) -> Linear:
        """The columns of results of so many fragments."""
        return self.tile(count // COLUMNS) * COLUMNS + self.quarter * 2 + Linear.var(self.pair)

    def launch(self) -> LaunchOp:
        for one in self.plan.nests:
            if one.work is not Work.PRODUCT:
                shorten_scalars(one.nest)
        for nest in self.group.nests:
            remove_unused_operations(nest.body.block)
        for node in self.group.nodes:
            self.own[node.result] = self.array_in_registers(node.result)
        for one in self.plan.nests:
            self.keep(one)
        for one in self.plan.nests:
            self.body += self.lower(one)
        registers = [(name, count) for count, name in sorted(self.counts.items())]
        registers += [(name, 2) for name in (self.half, self.row, self.pair, self.deep_pair)]
        self.draft.registers += registers
        arrays = [tile.array for tile in self.tiles.values()]
        epilogues = Epilogues(self.group, self.totals, self.read)
        body = [*self.in_turn(), *epilogues.build()]
        self.taken = epilogues.taken
        return self.draft.launch(self.group, [*arrays, *self.own.values(), *self.more, *body])

    # Turns.

    def in_turn(self) -> list[Operation]:
        """The loop over all turns, and all that is before it."""
        name, count = self.plan.turn
        fixed = [copy for tile in self.tiles.values() if not tile.in_turn for copy in tile.copies]
        moving = [copy for tile in self.tiles.values() if tile.in_turn for copy in tile.copies]
        turn, zero = Linear.var(name), Linear()
        following = turn + Linear((), 1)
        first = self.visible(zero, [self.moved(copy, zero) for copy in moving])
        later = self.visible(following, [*(self.moved(copy, following) for copy in moving), CommitOp()])
        last = WhereOp([Bound(following, count)], Region(Block(later)))
        arrived = self.visible(turn, [WaitOp(0), BarrierOp()])
        inside = dict([*self.draft.block, *self.draft.registers])
        body = unswitched(self.body, dict(self.group.space.data), inside)
        loop = ForOp(((name, count),), Region(Block([*arrived, last, *self.visible(turn, body)])))
        return [*fixed, *first, CommitOp(), *self.before, loop]

    def moved(self, copy: CopyOp, turn: Linear) -> CopyOp:
        """A copy of what a turn needs."""
        made = copy.clone()
        values = {self.turn: turn}
        source = tuple(index.substitute(values) for index in copy.source_map.data)
        target = tuple(index.substitute(values) for index in copy.target_map.data)
        made.properties["source_map"], made.properties["target_map"] = MapAttr(source), MapAttr(target)
        return made

    def visible(self, turn: Linear, ops: Sequence[Operation]) -> list[Operation]:
        """Operations where a turn has something to do."""
        bounds: list[Bound] = []
        sizes = {**dict(self.group.space.data)}
        for bound in self.bounds:
            index = bound.index.substitute({self.turn: turn})
            extremes = index.extremes(sizes)
            shift = Linear((), max(0, -extremes[0])) if extremes is not None else Linear()
            bounds.append(Bound(index + shift, bound.below + shift.constant))
        return [WhereOp(bounds, Region(Block(ops)))] if bounds and ops else list(ops)

    # Registers.

    def array_in_registers(self, node: SSAValue) -> OwnOp:
        """The part of a thread of an array of scores, or of what rows have."""
        shape = [self.plan.columns // COLUMNS, 2, 2] if node in self.plan.wide else [2]
        return OwnOp(MemRefType(element_type(node), shape))

    def at(self, node: SSAValue) -> Map:
        """The place in such an array."""
        if node not in self.plan.wide:
            return (Linear.var(self.row),)
        return (self.tile(self.plan.columns // COLUMNS), Linear.var(self.row), Linear.var(self.pair))

    def keep(self, one: PlannedNest) -> None:
        """Keeps what a nest adds up in registers; they are stored after the last turn."""
        nodes = {op.node for op in one.nest.body.block.ops if isinstance(op, StoreOp)}
        for accumulator in [self.kept[node] for node in nodes if node in self.kept]:
            place: Map = (Linear.var(self.row),)
            values = {one.own: self.own_place}
            if one.work is Work.PRODUCT:
                ((name, size),) = [(n, size) for n, size in one.nest.space.data if n != one.own]
                place = (self.tile(size // COLUMNS), Linear.var(self.row), Linear.var(self.pair))
                values[name] = self.columns(size)
            sizes = {name: count for count, name in self.counts.items()}
            shape = [sizes.get(name, 2) for index in place for name in index.names]
            array = OwnOp(MemRefType(element_type(accumulator.node), shape))
            self.more.append(array)
            accumulator.redirect(accumulator.accesses(), array, place)
            self.before += accumulator.starting(array.result, place)
            at = tuple(index.substitute(values | self.turned) for index in accumulator.at)
            once = (Bound(self.quarter, 1),) if one.work is Work.ROWS else ()
            self.totals[accumulator.node] = Total(array.result, place, at, once)

    # Nests.

    def lower(self, one: PlannedNest) -> list[Operation]:
        values = {one.own: self.own_place, one.turn: self.columns(self.plan.columns)}
        if one.product is not None and one.work is Work.POINTS:
            self.multiply_points(one, one.product)
        split: list[Operation] = []
        if one.product is not None and one.work is Work.PRODUCT:
            ((name, size),) = [(n, size) for n, size in one.nest.space.data if n != one.own]
            values[name] = self.columns(size)
            split = self.multiply_scores(one, one.product, (name, size))
        elif one.work is Work.ROWS:
            self.reduce_row(one)
        if one.work is Work.PRODUCT:
            shorten_scalars(one.nest)
        self.redirect(one)
        ops = detached(one.nest)
        made = [op for op in ops if isinstance(op, ReduceOp) and one.product is not None]
        substitute_indices(with_reduced(op for op in ops if op not in made), values)
        return [*split, *(after_starts(ops, made[0]) if one.work is Work.PRODUCT else ops)]

    def redirect(self, one: PlannedNest) -> None:
        """Lets a nest use registers for scores and for what rows have, and tiles for what columns have."""
        for op in operations(one.nest.body.block):
            if not isinstance(op, LoadOp | StoreOp):
                continue
            node, names = op.node, {name for index in op.indices.data for name in index.names}
            if node in self.own:
                op.operands[0 if isinstance(op, LoadOp) else 1] = self.own[node].result
                op.properties["indices"] = MapAttr(self.at(node))
            elif isinstance(op, LoadOp) and not isinstance(node.owner, OwnOp | SharedOp) and not op.positions:
                if one.own in names and not {one.turn, self.turn} & names:
                    self.load_before(op, one)
                elif one.turn in names and one.own not in names and element_bytes(node) == BANK_BYTES:
                    self.load_column(op, one)

    def load_before(self, op: LoadOp, one: PlannedNest) -> None:
        """Loads what a row has before the first turn."""
        at = tuple(index.substitute({one.own: self.own_place}) for index in op.indices.data)
        place = (Linear.var(self.row),)
        if (op.node, at) not in self.fixed:
            array = self.fixed[op.node, at] = OwnOp(MemRefType(element_type(op.node), [2]))
            self.more.append(array)
            load = LoadOp(op.node, at)
            self.before += [load, StoreOp(load.result, array.result, place)]
        op.operands[0] = self.fixed[op.node, at].result
        op.properties["indices"] = MapAttr(place)

    def load_column(self, op: LoadOp, one: PlannedNest) -> None:
        """Loads what columns have from shared memory."""
        source = tuple(index.substitute({one.turn: Linear.var(TILE_COLUMN)}) for index in op.indices.data)
        tile = self.shared(op.node, source, (self.plan.columns,), in_turn=True)
        op.operands[0] = tile.array.result
        op.properties["indices"] = MapAttr((Linear.var(self.turn), Linear.var(one.turn)))

    def reduce_row(self, one: PlannedNest) -> None:
        """Reduces the part of a thread, then over those that share the row."""
        (reduce,) = [op for op in one.nest.body.block.ops if isinstance(op, ReduceOp)]
        names = self.draft.names
        tile, pair = names.fresh(f"{one.turn}_tile"), names.fresh(f"{one.turn}_pair")
        inside = operations(reduce.body.block)
        for op in inside:
            if isinstance(op, LoadOp) and op.node in self.plan.wide:
                op.operands[0] = self.own[op.node].result
                op.properties["indices"] = MapAttr((Linear.var(tile), Linear.var(self.row), Linear.var(pair)))
        column = Linear.of({tile: COLUMNS, pair: 1}) + self.quarter * 2
        substitute_indices(inside, {one.turn: column})
        count = self.plan.columns // COLUMNS
        reduce.properties["space"] = SpaceAttr(((tile, count), (pair, 2)))
        combined = CombineOp(reduce.accum.data, reduce.result, self.quarter_name)
        reduce.result.replace_all_uses_with(combined.result)
        combined.operands = [reduce.result]
        one.nest.body.block.insert_op_after(combined, reduce)

    # Products.

    def deep(self, type: Attribute) -> tuple[list[str], int]:
        """The register variables along the depth, and how many elements of it are neighbours."""
        pack = FRAGMENTS[type.__class__].pack
        return [self.half, *([self.deep_pair] if pack > 1 else [])], pack

    def along(self, type: Attribute, step: str) -> Linear:
        """The place of an element along the depth."""
        names, pack = self.deep(type)
        along = Linear.of({step: FRAGMENTS[type.__class__].depth, self.half: pack * ACROSS})
        return along + self.quarter * pack + Linear.of(dict.fromkeys(names[1:], 1))

    def multiply_points(self, one: PlannedNest, found: Contraction) -> None:
        """Scores as products of two tiles."""
        type = element_type(found.left.node)
        own, other = (found.left, found.right) if found.row == one.own else (found.right, found.left)
        step = self.draft.names.fresh(f"{found.k}_step")
        size = dict(found.reduce.space.data)[found.k]
        columns = self.tile(self.plan.columns // COLUMNS) * COLUMNS + self.lane
        along = {found.k: self.along(type, step)}
        left = self.operand(
            own, (one.own, self.plan.rows), (found.k, size), {one.own: self.own_place, **along}
        )
        right = self.operand(
            other, (one.turn, self.plan.columns), (found.k, size), {one.turn: columns, **along}
        )
        steps = ((step, size // FRAGMENTS[type.__class__].depth),)
        self.replace(found.reduce, left, right, type, steps)

    def multiply_scores(
        self, one: PlannedNest, found: Contraction, feature: tuple[str, int]
    ) -> list[Operation]:
        """Adds products of scores, which lie in registers as they are needed, with a tile; returns what
        splits scores into parts.
        """
        scores, other = scores_first(found, self.plan.wide)
        type, (name, size) = element_type(other.node), feature
        step = self.draft.names.fresh(f"{found.k}_step")
        fragments = FRAGMENTS[type.__class__]
        pairs = Linear.var(self.deep_pair if fragments.pack > 1 else self.half)
        tile = Linear.of({step: 2, self.half: 1}) if fragments.pack > 1 else Linear.var(step)
        place: Map = (tile, Linear.var(self.row), pairs)
        # Elements of f32 are multiplied in the order in which threads have their columns.
        along = self.along(type, step)
        if fragments.pack == 1:
            along = Linear.of({step: COLUMNS, self.half: 1}) + self.quarter * 2
        array, split, space = self.own[scores.node], list[Operation](), ((step, self.steps(type)),)
        if one.parts:
            array, split = self.split(scores.node, one.parts)
            part = self.draft.names.fresh("part")
            place, space = (Linear.var(part), *place), ((part, one.parts), *space)
        values = {found.k: along, name: self.tile(size // COLUMNS) * COLUMNS + self.lane}
        right = self.operand(other, (name, size), (found.k, self.plan.columns), values)
        self.replace(found.reduce, LoadOp(array.result, place), right, type, space)
        return split

    def steps(self, type: Attribute) -> int:
        return self.plan.columns // FRAGMENTS[type.__class__].depth

    def split(self, node: SSAValue, parts: int) -> tuple[OwnOp, list[Operation]]:
        """Scores as the sums of bf16: each part is what the ones before leave."""
        array = OwnOp(MemRefType(bf16, [parts, self.plan.columns // COLUMNS, 2, 2]))
        self.more.append(array)
        rest = LoadOp(self.own[node].result, self.at(node))
        ops: list[Operation] = [rest]
        value: SSAValue = rest.result
        for part in range(parts):
            rounded = arith.TruncFOp(value, bf16)
            ops += [rounded, StoreOp(rounded.result, array.result, (Linear((), part), *self.at(node)))]
            if part + 1 < parts:
                wide = arith.ExtFOp(rounded.result, f32)
                left = arith.SubfOp(value, wide.result)
                ops += [wide, left]
                value = left.result
        return array, ops

    def replace(
        self,
        reduce: ReduceOp,
        left: LoadOp,
        right: LoadOp,
        type: Attribute,
        space: tuple[tuple[str, int], ...],
    ) -> None:
        """Puts a sum of products of fragments in place of a reduction."""
        deep, _ = self.deep(type)
        product = MmaOp(left.result, right.result, self.row, deep, self.pair)
        put_sum(reduce, [left, right, product], space)

    # Tiles.

    def operand(
        self, load: LoadOp, side: tuple[str, int], deep: tuple[str, int], values: Mapping[str, Linear]
    ) -> LoadOp:
        """The load of an operand's fragments from its tile in shared memory."""
        outer, inner = sorted((side, deep), key=lambda variable: -abs(address_of(load).stride(variable[0])))
        places = {outer[0]: Linear.var(TILE_ROW), inner[0]: Linear.var(TILE_COLUMN)}
        source = tuple(index.substitute(places) for index in load.indices.data)
        in_turn = any(self.turn in index.names for index in source)
        tile = self.shared(load.node, source, (outer[1], inner[1]), in_turn=in_turn)
        slot = (Linear.var(self.turn),) if in_turn else ()
        return LoadOp(tile.array.result, (*slot, values[outer[0]], values[inner[0]]))

    def shared(self, node: SSAValue, source: Map, sizes: tuple[int, ...], *, in_turn: bool) -> Tile:
        """An array with a part of a node, padded so that rows lie in different banks."""
        if (node, source) not in self.tiles:
            type, (*rows, columns) = element_type(node), sizes
            assert isinstance(type, FixedBitwidthType)
            swizzled = bool(rows) and self.plan.warpgroups
            padding = VECTOR_BYTES // element_bytes(node) if rows and not swizzled else 0
            shape = [*([STAGES] if in_turn else []), *rows, columns + padding]
            plain, ring = (SWIZZLED, SWIZZLED_RING) if swizzled else (NoneAttr(), RING)
            array = SharedOp(MemRefType(type, shape, memory_space=ring if in_turn else plain))
            names = (TILE_ROW, TILE_COLUMN)[-len(sizes) :]
            slot = (Linear.var(self.turn),) if in_turn else ()
            target = (*slot, *(Linear.var(name) for name in names))
            space = tuple(zip(names, sizes, strict=True))
            ends = (node, source), (array.result, target)
            bulk = in_bulk(*ends, space, ()) if swizzled else None
            self.tiles[node, source] = Tile(array, [bulk or whole(*ends, space, (), True)], in_turn)
        return self.tiles[node, source]


def after_starts(ops: Sequence[Operation], sum: Operation) -> list[Operation]:
    """The operations of a nest with a sum just before it is used, after what it is added to."""
    others = [op for op in ops if op is not sum]
    place = next(k for k, op in enumerate(others) if sum.results[0] in op.operands)
    return [*others[:place], sum, *others[place:]]
