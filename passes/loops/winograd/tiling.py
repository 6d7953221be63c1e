"""Makes a convolution one of tiles: nests that transform the operands, that multiply what they gave, and that
transform the products to results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, Map, Space, identity_map
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.scalar.accumulation import builder_for
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import declaration
from ocannl.passes.analysis.patterns.convolutions import Convolution, points
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.winograd.blocks import SQUARE, WORD, Blocking, Extents, best_blocking
from ocannl.passes.loops.winograd.transforms import (
    IMAGE,
    KERNEL,
    OFFSETS,
    OUTPUT,
    POSITIONS,
    TERMS,
    Matrix,
    Square,
    transformed,
    transposed,
)
from ocannl.passes.rewrites.common_subexpressions import Eliminator
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.indices import Copier
from ocannl.passes.rewrites.rfactor import nest_of

# The parts of the sum over tiles of a kernel's gradient, which threads share, and how many times the
# second-level cache all of them may fill.
PARTS, PARTS_FILL = 8, 2
# The vectors beside each other in a panel of a transformed kernel.
PANEL = 2

# The index expressions of variables at a row and a column of a square.
Place = Callable[[int, int], dict[str, Linear]]


def extents_of(convolution: Convolution) -> Extents:
    positions = [(name, size // POSITIONS) for name, size in convolution.positions]
    inner, outer = points(convolution.inner), points(convolution.outer)
    return Extents((*convolution.batch, *positions), inner, outer, convolution.of_kernel)


@dataclass(frozen=True)
class Terms:
    """A node with the terms of something transformed, and the other indices at which it is read."""

    node: NodeOp
    indices: Map

    def at(self, term: Linear) -> Map:
        return (term, *self.indices)


@dataclass
class Tiling:
    """The nests of one convolution by tiles."""

    convolution: Convolution
    labels: Names
    target: TargetDescription

    def __post_init__(self) -> None:
        self.nest = self.convolution.nest
        func = enclosing_routine(self.nest)
        assert isinstance(func, FuncOp)
        self.func = func
        self.names = Names.of(func, self.nest)
        self.extents = extents_of(self.convolution)
        self.blocking: Blocking = best_blocking(self.extents, self.names, self.target)
        self.term = self.names.fresh("term")

    def run(self) -> None:
        """Replaces the nest."""
        declared, steps = self.of_kernel() if self.convolution.of_kernel else self.of_output()
        derive([*declared, *steps], self.nest.location)
        declare(self.func, declared)
        Rewriter.insert_op(steps, InsertPoint.before(self.nest))
        Rewriter.erase_op(self.nest)

    # Sums over the offsets and channels of windows.

    def of_output(self) -> tuple[list[NodeOp], list[NestOp | GroupOp]]:
        found, inside = self.convolution, self.blocking.inside
        columns, panels, whole = self.panels(found.outer)
        kernel = self.terms(found.other, (*columns[:-1], *found.inner, columns[-1]))
        image = self.terms(found.image, (*inside, *found.inner))
        results = self.declare(f"{self.nest.label.data}.terms", (*inside, *found.outer))
        in_results = (*identity_map(name for name, _ in inside), *whole.values())
        multiplied = self.multiply(
            (*columns[:-1], *inside, columns[-1]), found.inner, image, kernel, Terms(results, in_results)
        )
        read = Terms(results, identity_map(name for name, _ in (*inside, *found.outer)))
        before = self.transform(found.other, KERNEL, lambda i, j: self.in_kernel(i, j) | panels, kernel)
        block = [
            self.transform(found.image, IMAGE, self.in_image, image),
            multiplied,
            self.go_on(OUTPUT, read, self.in_output, (*inside, *found.outer)),
        ]
        declared, steps = self.in_blocks([image.node, results], block, self.blocking.around)
        return [kernel.node, *declared], [before, *steps]

    def panels(self, space: Space) -> tuple[Space, dict[str, Linear], dict[str, Linear]]:
        """Variables with the innermost one split in panels, where that leaves no remainder; its index; and
        those of all variables.
        """
        *others, (lanes, size) = space
        width = PANEL * self.target.vector_bytes // WORD
        index, columns = Linear.var(lanes), space
        if size > width and size % width == 0:
            panel = self.names.fresh(f"{lanes}_panel")
            index = Linear.of({panel: width, lanes: 1})
            columns = (*others, (panel, size // width), (lanes, width))
        whole = {name: Linear.var(name) for name, _ in others} | {lanes: index}
        return columns, {lanes: index}, whole

    # The gradient of a kernel, which is a sum over positions.

    def of_kernel(self) -> tuple[list[NodeOp], list[NestOp | GroupOp]]:
        found, inside, around = self.convolution, self.blocking.inside, self.blocking.around
        image = self.terms(found.image, (*inside, *found.inner))
        output = self.terms(found.other, (*inside, *found.outer))
        cells = tuple(extent for extent in self.nest.space.data if extent in (*found.inner, *found.outer))
        names = identity_map(name for name, _ in cells)
        around, part, parts = self.parts(around)
        sums = self.declare(f"{self.nest.label.data}.terms", (*parts, *cells))
        total = Terms(sums, (*part, *names))
        block = [
            self.transform(found.image, IMAGE, self.in_image, image),
            self.transform(found.other, transposed(OUTPUT), self.in_output, output),
            self.multiply(cells, inside, image, output, total, adds=bool(around)),
        ]
        before = [self.reset(sums)] if around else []
        indices = [(Linear((), k),) for k in range(parts[0][1])] if parts else [()]
        read = [Terms(sums, (*index, *names)) for index in indices]
        after = self.go_on(transposed(KERNEL), read, self.in_kernel, cells)
        declared, steps = self.in_blocks([image.node, output.node], block, around)
        return [sums, *declared], [*before, *steps, after]

    def parts(self, around: Space) -> tuple[Space, Map, Space]:
        """The loops over blocks, of which the outermost one counts parts that have sums of their own; the
        index of a part, and its space; none where there is one part.
        """
        room = PARTS_FILL * self.target.l2_bytes // self.extents.kernel_bytes
        (name, size), *others = around or [("", 1)]
        count = largest_divisor(size, max(1, min(PARTS, room)))
        if count == 1:
            return around, (), ()
        if count == size:
            return around, (Linear.var(name),), ((name, size),)
        part = self.names.fresh(f"{name}_part")
        whole = {name: Linear.of({part: size // count, name: 1})}
        self.blocking.tile.update({key: index.substitute(whole) for key, index in self.blocking.tile.items()})
        return ((part, count), (name, size // count), *others), (Linear.var(part),), ((part, count),)

    def reset(self, node: NodeOp) -> NestOp:
        space = tuple((f"i{axis}", size) for axis, size in enumerate(node.result.type.get_shape()))
        b = builder_for(self.convolution.reduction.result.type)
        value = b.const(0.0)
        stored = StoreOp(value, node.result, identity_map(name for name, _ in space))
        return nest_of(f"{node.label.data} reset", space, [*b.ops, stored])

    # What all have.

    def in_blocks(
        self, local: Sequence[NodeOp], nests: Sequence[NestOp], around: Space
    ) -> tuple[list[NodeOp], list[NestOp | GroupOp]]:
        """A group of nests over the blocks, with nodes that live inside; if there are no blocks, these are
        declared around.
        """
        if not around:
            return [*local], [*nests]
        return [], [GroupOp(self.nest.label.data, around, Region(Block([*local, *nests])))]

    def in_image(self, row: int, column: int) -> dict[str, Linear]:
        windows = self.convolution.windows
        first = {w.offset: Linear((), OFFSETS - 1 if w.is_flipped else 0) for w in windows}
        return self.in_output(row, column) | first

    def in_output(self, row: int, column: int) -> dict[str, Linear]:
        tile = dict(self.blocking.tile)
        for window, shift in zip(self.convolution.windows, (row, column), strict=True):
            tile[window.position] = tile[window.position] * POSITIONS + Linear((), shift)
        return tile

    def in_kernel(self, row: int, column: int) -> dict[str, Linear]:
        places = zip(self.convolution.windows, (row, column), strict=True)
        return {w.offset: Linear((), OFFSETS - 1 - at if w.is_flipped else at) for w, at in places}

    def terms(self, load: LoadOp, space: Space) -> Terms:
        """A node for the terms of an operand."""
        node = self.declare(f"{declaration(load.node).label.data}.terms", space)
        return Terms(node, identity_map(name for name, _ in space))

    def declare(self, label: str, space: Space) -> NodeOp:
        type = MemRefType(self.convolution.reduction.result.type, [SQUARE, *(size for _, size in space)])
        return NodeOp(self.labels.fresh(label), "local", f"terms of tiles for {self.nest.label.data}", type)

    def transform(self, load: LoadOp, matrix: Matrix, place: Place, to: Terms) -> NestOp:
        """The nest that transforms an operand."""
        b = builder_for(self.convolution.reduction.result.type)
        values: Square = []
        for row in range(len(matrix[0])):
            places = [place(row, column) for column in range(len(matrix[0]))]
            values.append([b.append(LoadOp(load.node, moved(load.indices.data, at))) for at in places])
        found = [value for row in transformed(b, matrix, values) for value in row]
        stores = [StoreOp(value, to.node.result, to.at(Linear((), k))) for k, value in enumerate(found)]
        shape = to.node.result.type.get_shape()[1:]
        names = [index.variable or "" for index in to.indices]
        return nest_of(to.node.label.data, tuple(zip(names, shape, strict=True)), [*b.ops, *stores])

    def multiply(
        self, space: Space, summed: Space, left: Terms, right: Terms, to: Terms, *, adds: bool = False
    ) -> NestOp:
        """The nest of all products of terms, which it adds to what there was before, or stores."""
        term, type = Linear.var(self.term), self.convolution.reduction.result.type
        first, second = (LoadOp(side.node.result, side.at(term)) for side in (left, right))
        multiplied = arith.MulfOp(first.result, second.result)
        body = Region(Block([first, second, multiplied, YieldOp(multiplied.result)]))
        total = ReduceOp("add", summed, body, type)
        ops: list[Operation] = [total]
        if adds:
            old = LoadOp(to.node.result, to.at(term))
            ops += [old, arith.AddfOp(old.result, total.result)]
        stored = StoreOp(ops[-1].results[0], to.node.result, to.at(term))
        return nest_of(f"{self.nest.label.data} products", ((self.term, SQUARE), *space), [*ops, stored])

    def go_on(self, matrix: Matrix, read: Terms | Sequence[Terms], place: Place, space: Space) -> NestOp:
        """The nest that transforms products, added up if they are in parts, and does with each result what
        was done before.
        """
        parts = [read] if isinstance(read, Terms) else read
        b = builder_for(self.convolution.reduction.result.type)

        def product(term: int) -> SSAValue:
            loads = [b.append(LoadOp(part.node.result, part.at(Linear((), term)))) for part in parts]
            return reduce(b.add, loads)

        values = [[product(TERMS * row + column) for column in range(TERMS)] for row in range(TERMS)]
        results, made = transformed(b, matrix, values), list(b.ops)
        for row, line in enumerate(results):
            for column, value in enumerate(line):
                made += self.rest(value, place(row, column))
        nest = nest_of(self.nest.label.data, space, made)
        Eliminator().run(nest.body.block)
        return nest

    def rest(self, value: SSAValue, at: Mapping[str, Linear]) -> list[Operation]:
        """Copies of what the nest does with a result, at another place."""
        copier = Copier(self.names, dict(at), {self.convolution.reduction.result: value})
        ops = self.nest.body.block.ops
        return [copier.copy(op) for op in ops if op is not self.convolution.reduction]


def moved(indices: Map, at: Mapping[str, Linear]) -> Map:
    return tuple(index.substitute(at) for index in indices)
