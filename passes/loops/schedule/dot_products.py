"""Products of small numbers: a group over blocks of results, in which one nest adds up the products of a
block by an instruction for them, and another one goes on with its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, MemRefType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.assign.node import KEPT
from ocannl.dialects.index.linear import Linear, MapAttr, SpaceAttr
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import enclosing_routine
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import declaration, names_in, operations
from ocannl.passes.analysis.patterns.dot_products import DotProduct, axis_of
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.loops.schedule.pack import after_declarations
from ocannl.passes.rewrites.indices import substitute_indices

# The most rows and columns of results of a point of a group, and their bytes.
MOST_ROWS, MOST_COLUMNS, RESULT_BYTES = 256, 128, 2**16
# The bytes of a result, and of a group of neighbours along the sum.
WORD = 4


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the rows or columns of a product: `points` of a group with `blocks` of `width` each, from
    `start` on.
    """

    start: int
    points: int
    blocks: int
    width: int


def parts(size: int, block: int, most: int) -> Iterator[Part]:
    """Whole blocks of so many rows or columns, at most so many at a point, and then the remainder."""
    whole, remainder = divmod(size, block)
    blocks = largest_divisor(whole, most) if whole else 0
    if 2 * blocks < min(most, whole):
        yield Part(0, whole // most, most, block)
        done = whole // most * most
        yield Part(done * block, 1, whole - done, block)
    elif whole:
        yield Part(0, whole // blocks, blocks, block)
    if remainder:
        yield Part(whole * block, 1, 1, remainder)


@dataclass(frozen=True, slots=True)
class CopyKey:
    """The source of a copy, and what its layout depends on."""

    source: SSAValue
    layout: Hashable


@dataclass
class DotTiling:
    """Makes groups of the blocks of a nest's product, and the nests that copy its operands."""

    nest: NestOp
    product: DotProduct
    labels: Names
    unwritten: Collection[SSAValue]
    known: dict[CopyKey, SSAValue]
    """The copies so far that are still equal to their sources, by source and layout."""

    def __post_init__(self) -> None:
        func = enclosing_routine(self.nest)
        assert isinstance(func, FuncOp)
        self.names, product = Names.of(func, self.nest), self.product
        self.groups, self.panel, self.row_block, self.column_block = (
            self.names.fresh(f"{name}_{of}")
            for name, of in (
                (product.k, "group"),
                (product.column, "panel"),
                (product.row, "block"),
                (product.column, "block"),
            )
        )
        self.axes: dict[int, str] = {}
        self.copies: list[NestOp] = []
        self.loads = [op for op in product.reduction.body.block.ops if isinstance(op, LoadOp)]

    def run(self) -> list[NestOp | GroupOp]:
        """Replaces the nest; returns the copies and groups that stand in its place, in their order."""
        product, sizes = self.product, self.product.sizes
        right = self.known_copy(product.right, product.column, self.packed_columns)
        left = None if product.is_direct else self.known_copy(product.left, product.row, self.packed_rows)
        others = self.inside()
        rows = math.prod(sizes[name] for name in others)
        height, width = product.tile.rows, product.tile.columns
        most_rows = max(1, min(MOST_ROWS // height, RESULT_BYTES // (WORD * height * width * rows)))
        groups: list[GroupOp] = []
        for row in parts(sizes[product.row], height, most_rows):
            most = RESULT_BYTES // (WORD * width * row.blocks * row.width * rows)
            for column in parts(sizes[product.column], width, max(1, min(MOST_COLUMNS // width, most))):
                groups.append(self.group(row, column, others, left, right))
        Rewriter.erase_op(self.nest)
        return [*self.copies, *groups]

    def inside(self) -> list[str]:
        """The variables of further rows, inside of a group's points: the innermost ones, for which there is
        room.
        """
        product, found = self.product, list[str]()
        rows = min(product.sizes[product.row], product.tile.rows)
        around = names_in(product.right.indices.data) | self.nest.clashing | {product.row, product.column}
        for name in reversed(self.nest.space.names):
            rows *= product.sizes[name] if name not in around else 1
            if name not in around and rows * product.tile.columns * WORD <= RESULT_BYTES:
                found.insert(0, name)
        return found

    # Copies of operands.

    def known_copy(self, load: LoadOp, side: str, make: Callable[[], SSAValue]) -> SSAValue:
        """A copy that was made for another product before, or is made now."""
        product, axes = self.product, self.kept_axes(load, side)
        indices = tuple(index for axis, index in enumerate(load.indices.data) if axis not in axes)
        own = {side: "side", product.k: "k"}
        fixed = tuple(own.get(index.variable or "", index) for index in indices)
        is_right = load is product.right
        key = CopyKey(load.node, (tuple(axes), fixed, is_right, product.groups, product.depth))
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def packed_columns(self) -> SSAValue:
        """A copy of the right operand in panels of columns, in which neighbours along the sum are beside each
        other in each column.
        """
        product, load = self.product, self.product.right
        columns, block = product.sizes[product.column], product.tile.columns
        panels = -(-columns // block)
        axes = self.kept_axes(load, product.column)
        shape = [*(memref_shape(load.node)[axis] for axis in axes), panels, product.groups]
        width = min(block, columns)
        may_keep = columns % width == 0 and load.node in self.unwritten
        node = self.declare(load, [*shape, width, product.depth], KEPT if may_keep else "local")
        for start, count, size in ((0, columns // block, block), (panels - 1, 1, columns % block)):
            if count and size:
                self.copy_columns(load, node, axes, start, count, size)
        return node

    def copy_columns(
        self, load: LoadOp, node: SSAValue, axes: Sequence[int], start: int, count: int, width: int
    ) -> None:
        product, panel, groups = self.product, self.panel, self.groups
        space = {name: memref_shape(load.node)[axis] for axis, name in self.axis_names(axes).items()}
        space |= {panel: count, groups: product.groups, product.column: width, product.k: product.depth}
        block = product.tile.columns
        column = Linear.of({panel: block, product.column: 1}, start * block)
        source = self.source(load, axes, {product.column: column, product.k: self.along_k})
        target = [*map(Linear.var, list(space)[:-4]), Linear.of({panel: 1}, start)]
        target += [Linear.var(name) for name in list(space)[-3:]]
        self.copy(load, node, space, source, target, self.copy_schedule(load, space))

    def copy_schedule(self, load: LoadOp, space: Mapping[str, int]) -> Schedule | None:
        """How columns are copied: neighbours along the sum, or along the columns, are read as vectors."""
        product, address = self.product, address_of(load)
        if address.stride(product.column) == 1:
            return Schedule(tuple(space), (product.k, product.depth), (product.column, product.tile.columns))
        if address.stride(product.k) == 1:
            words = product.tile.columns // 2
            return Schedule(tuple(space), (self.groups, words), (product.column, words))
        return None

    def packed_rows(self) -> SSAValue:
        """A copy of the left operand in which neighbours along the sum are neighbours in memory."""
        product, load = self.product, self.product.left
        axes = self.kept_axes(load, product.row)
        space = {name: memref_shape(load.node)[axis] for axis, name in self.axis_names(axes).items()}
        space |= {product.row: product.sizes[product.row], product.k: product.groups * product.depth}
        node = self.declare(load, list(space.values()), "local")
        self.copy(load, node, space, self.source(load, axes, {}), [Linear.var(name) for name in space])
        return node

    @property
    def along_k(self) -> Linear:
        return Linear.of({self.groups: self.product.depth, self.product.k: 1})

    def kept_axes(self, load: LoadOp, side: str) -> list[int]:
        """The other axes of a copy: those whose index moves."""
        indices = load.indices.data
        own = {axis_of(load, side), axis_of(load, self.product.k)}
        return [
            axis
            for axis, index in enumerate(indices)
            if axis not in own and self.product.sizes.keys() & set(index.names)
        ]

    def axis_names(self, axes: Sequence[int]) -> dict[int, str]:
        """The variables of a copy along axes of its operand."""
        for axis in axes:
            if axis not in self.axes:
                self.axes[axis] = self.names.fresh(f"axis{axis}")
        return {axis: self.axes[axis] for axis in axes}

    def source(self, load: LoadOp, axes: Sequence[int], at: Mapping[str, Linear]) -> list[Linear]:
        """The indices at which an operand is read by its copy."""
        names = self.axis_names(axes)
        return [
            Linear.var(names[axis]) if axis in names else index.substitute(at)
            for axis, index in enumerate(load.indices.data)
        ]

    def declare(self, load: LoadOp, shape: Sequence[int], mode: str) -> SSAValue:
        label = self.labels.fresh(f"{declaration(load.node).label.data}.packed")
        type = MemRefType(element_type(load.node), shape)
        node = NodeOp(label, mode, f"contiguous copy for {self.nest.label.data}", type)
        derive([node], load.location)
        Rewriter.insert_op(node, after_declarations(self.nest))
        return node.result

    def copy(
        self,
        load: LoadOp,
        node: SSAValue,
        space: Mapping[str, int],
        source: Sequence[Linear],
        target: Sequence[Linear],
        schedule: Schedule | None = None,
    ) -> None:
        read = LoadOp(load.node, source)
        body = Region(Block([read, StoreOp(read.result, node, target)]))
        nest = NestOp(declaration(node).label.data, list(space.items()), body, schedule)
        derive([nest], load.location)
        Rewriter.insert_op(nest, InsertPoint.before(self.nest))
        self.copies.append(nest)

    # Groups.

    def group(
        self, row: Part, column: Part, others: Sequence[str], left: SSAValue | None, right: SSAValue
    ) -> GroupOp:
        """The group for a part of the rows and columns, before the nest."""
        product, rest = self.product, self.nest.clone()
        rows, columns = row.blocks * row.width, Linear.of({self.panel: 1, self.column_block: column.blocks})
        at = {
            product.row: Linear.of({self.row_block: rows, product.row: 1}, row.start),
            product.column: columns * product.tile.columns + Linear.of({product.column: 1}, column.start),
        }
        at = {name: self.without_units(index, row, column) for name, index in at.items()}
        panel = self.without_units(columns, row, column) + Linear((), column.start // product.tile.columns)
        substitute_indices(operations(rest.body.block), at)
        space = {name: self.nest.space.data[self.nest.space.names.index(name)][1] for name in others}
        space |= {product.row: rows}
        space = ({self.panel: column.blocks} if column.blocks > 1 else {}) | space
        space |= {product.column: column.width}
        points = {name: size for name, size in self.nest.space.data if name not in space}
        points |= {self.row_block: row.points} if row.points > 1 else {}
        points |= {self.column_block: column.points} if column.points > 1 else {}
        group = GroupOp(self.nest.label.data, list(points.items()), Region(Block()))
        derive([group], self.nest.location)
        (reduction,) = [op for op in rest.body.block.ops if isinstance(op, ReduceOp)]
        tile = NodeOp(
            self.labels.fresh(f"{self.nest.label.data}.block"),
            "local",
            f"results of {product.instruction.name}",
            MemRefType(reduction.result.type, list(space.values())),
        )
        indices = [Linear.var(name) for name in space]
        self.go_on(reduction, tile.result, indices)
        self.read_copies(reduction, at, panel, left, right)
        sums = NestOp(
            f"{self.nest.label.data} products",
            list(space.items()),
            Region(Block([reduction, StoreOp(reduction.result, tile.result, indices)])),
            Schedule(
                tuple(space),
                (product.row, min(product.tile.rows, rows)),
                (product.column, column.width),
                dot=product.instruction.name,
            ),
        )
        rest.properties["space"] = SpaceAttr(tuple(space.items()))
        rest.properties["label"] = StringAttr(self.nest.label.data)
        derive([tile, sums], reduction.location)
        group.body.block.add_ops([tile, sums, rest])
        Rewriter.insert_op(group, InsertPoint.before(self.nest))
        return group

    def without_units(self, index: Linear, row: Part, column: Part) -> Linear:
        """An index without the variables that have a single point."""
        counts = {self.row_block: row.points, self.column_block: column.points, self.panel: column.blocks}
        return index.substitute({name: Linear() for name, count in counts.items() if count == 1})

    def go_on(self, reduction: ReduceOp, tile: SSAValue, indices: Sequence[Linear]) -> None:
        """Lets the operations after a sum read it from a block, to which they add what is left of it."""
        result = LoadOp(tile, indices)
        made: list[Operation] = [result]
        if self.product.rest:
            left_over, k = reduction.clone(), self.product.k
            space = [(name, self.product.rest if name == k else size) for name, size in reduction.space.data]
            left_over.properties["space"] = SpaceAttr(tuple(space))
            start = self.product.groups * self.product.depth
            substitute_indices(operations(left_over.body.block), {k: Linear.of({k: 1}, start)})
            add = arith.AddfOp if isinstance(reduction.result.type, Float32Type) else arith.AddiOp
            made += [left_over, add(result.result, left_over.result)]
        derive(made, reduction.location)
        Rewriter.insert_op(made, InsertPoint.before(reduction))
        reduction.result.replace_all_uses_with(made[-1].results[0])
        reduction.detach()

    def read_copies(
        self,
        reduction: ReduceOp,
        at: Mapping[str, Linear],
        panel: Linear,
        left: SSAValue | None,
        right: SSAValue,
    ) -> None:
        """Lets a sum go along groups of neighbours, and read its operands from their copies."""
        product = self.product
        outer = [(name, size) for name, size in reduction.space.data if name != product.k]
        inner = [(self.groups, product.groups), (product.k, product.depth)]
        reduction.properties["space"] = SpaceAttr((*outer, *inner))
        loads = [op for op in reduction.body.block.ops if isinstance(op, LoadOp)]
        for load, original in zip(loads, self.loads, strict=True):
            indices = load.indices.data
            if original is product.right:
                axes = self.kept_axes(original, product.column)
                last = [panel, *map(Linear.var, (self.groups, product.column, product.k))]
                load.operands[0] = right
            elif left is None:
                axes, last = range(len(indices)), []
                indices = tuple(index.substitute({product.k: self.along_k}) for index in indices)
            else:
                axes, last = self.kept_axes(original, product.row), [at[product.row], self.along_k]
                load.operands[0] = left
            load.properties["indices"] = MapAttr((*(indices[axis] for axis in axes), *last))
