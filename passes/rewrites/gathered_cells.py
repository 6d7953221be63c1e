"""Terms that windows scatter, each by itself, become sums that each cell gathers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.read_cells import read_ranges
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import ZERO, operations, steps_using
from ocannl.passes.analysis.patterns.resets import reset_to
from ocannl.passes.analysis.patterns.window_pieces import Piece, pieces_of
from ocannl.passes.rewrites.gathered_windows import Window
from ocannl.passes.rewrites.indices import drop_unit_variables, substitute_indices
from ocannl.passes.rewrites.rfactor import nest_of


@dataclass(frozen=True)
class Part:
    """Cells of a phase, the remainder that they leave divided by the stride, and the turns at which positions
    of windows reach them; with as many on the `other` side of an image, reached at as many turns.
    """

    phase: int
    piece: Piece
    other: Piece | None = None

    def is_like(self, part: Part) -> bool:
        """Whether as many cells of the same phase are reached at as many turns."""
        extents = [(p.phase, len(p.piece.own), len(p.piece.summed)) for p in (self, part)]
        return self.other is None and extents[0] == extents[1]


@dataclass(frozen=True)
class CellScatter:
    """A nest that adds a term at each of its points to a cell that a nest before has reset, whose windows
    reach all cells that are read.

    Attributes:
        old, added: what is loaded, and the sum with it that is stored.
        terms: what is added to it; two factors of an `fma`.
    """

    reset: NestOp
    nest: NestOp
    store: StoreOp
    old: LoadOp
    added: Operation
    terms: tuple[SSAValue, ...]
    windows: tuple[Window, ...]

    @cached_property
    def parts(self) -> list[list[Part]]:
        """The cells that are read along each axis with a window, by the offsets that reach them."""
        return [parts_of(window) for window in self.windows]

    @property
    def count(self) -> int:
        """How many nests gather all cells: one for each part of each axis."""
        return math.prod(map(len, self.parts))


def parts_of(window: Window) -> list[Part]:
    """The cells along an axis that are read."""
    found = list[Part]()
    for phase in window.phases:
        position, turns = window.values(phase)[window.position], window.offsets_of(phase)
        cells, positions = len(window.elements(phase)), range(window.positions)
        for piece in pieces_of(position, window.position, cells, window.offset, turns, positions):
            part = Part(phase, piece)
            before = next((at for at, one in enumerate(found) if one.is_like(part)), None)
            if before is None:
                found.append(part)
            else:
                found[before] = Part(phase, found[before].piece, piece)
    return found


def find_cell_scatter(func: FuncOp, nest: NestOp) -> CellScatter | None:
    """The scatter that a nest of a function is, if it is one whose windows overlap, and adds no sums."""
    clashing = nest.clashing if nest.schedule is None else set[str]()
    ops = operations(nest.body.block)
    stores = [op for op in ops if isinstance(op, StoreOp)]
    if not clashing or len(stores) != 1 or any(isinstance(op, ReduceOp) for op in ops):
        return None
    (store,) = stores
    if any(isinstance(op, LoadOp | StoreOp) and op.positions for op in ops):
        return None
    reset = reset_before(func, nest, store.node)
    found = added_to(store)
    if reset is None or found is None:
        return None
    old, added, terms = found
    windows = windows_of(func, nest, store)
    if not windows or not clashing <= {name for w in windows for name in (w.position, w.offset)}:
        return None
    scatter = CellScatter(reset, nest, store, old, added, terms, windows)
    return scatter if all(part.piece.summed for parts in scatter.parts for part in parts) else None


def reset_before(func: FuncOp, nest: NestOp, node: SSAValue) -> NestOp | None:
    """The step before a nest that touches a node, if it sets all of it to zero."""
    touching = steps_using(func, node)
    earlier = touching[: touching.index(nest)]
    start = reset_to(earlier[-1]) if earlier else None
    is_zero = start is not None and isinstance(start.value, FloatAttr) and start.value.value.data == 0
    return earlier[-1] if is_zero and isinstance(earlier[-1], NestOp) else None


def added_to(store: StoreOp) -> tuple[LoadOp, Operation, tuple[SSAValue, ...]] | None:
    """The load of a cell to which a nest adds, the sum, and what is added, as two factors where they are; if
    nothing else uses these.
    """
    added = store.value.owner
    if not isinstance(added, arith.AddfOp | math_dialect.FmaOp) or not added.results[0].has_one_use():
        return None
    olds = added.operands[-1:] if isinstance(added, math_dialect.FmaOp) else added.operands
    for value in olds:
        load = value.owner
        if isinstance(load, LoadOp) and load.node == store.node and load.indices == store.indices:
            terms = tuple(operand for operand in added.operands if operand != value)
            is_only = value.has_one_use() and not any(
                isinstance(op, LoadOp) and op is not load and op.node == store.node for op in nest_ops(store)
            )
            return (load, added, terms) if is_only and terms else None
    return None


def nest_ops(store: StoreOp) -> list[Operation]:
    block = store.parent
    assert block is not None
    return operations(block)


def windows_of(func: FuncOp, nest: NestOp, store: StoreOp) -> tuple[Window, ...]:
    """The windows along the axes of a store, if they reach all cells that are read; else none."""
    sizes, found = dict(nest.space.data), list[Window]()
    read = read_ranges(func, store.node, nest)
    uses = [name for index in store.indices.data for name in index.names]
    for axis, (index, cells) in enumerate(zip(store.indices.data, read, strict=True)):
        if len(index.terms) < 2:
            whole = 1 if index == ZERO else sizes.get(index.variable or "", 0)
            if cells != range(whole):
                return ()
            continue
        window = window_of(index, sizes, axis, cells)
        if window is None or not window.reaches_all:
            return ()
        found.append(window)
    innermost = next((index for index in reversed(store.indices.data) if index.terms), ZERO)
    is_contiguous = len(innermost.terms) < 2 or all(window.stride == 1 for window in found)
    return tuple(found) if len(set(uses)) == len(uses) and is_contiguous else ()


def window_of(index: Linear, sizes: dict[str, int], axis: int, cells: range) -> Window | None:
    """The window along an axis: of two variables, the offset moves by one element, or is the shorter one."""
    if len(index.terms) != 2 or any(name not in sizes or step < 1 for name, step in index.terms):
        return None
    offset, position = sorted(index.terms, key=lambda term: (term[1] > 1, sizes[term[0]]))
    if position[1] == 1 < offset[1]:
        offset, position = position, offset
    (o, dilation), (p, stride) = offset, position
    if stride > 1 and dilation > 1:
        return None
    read = range(cells.start - index.constant, cells.stop - index.constant)
    return Window(p, sizes[p], o, sizes[o], stride, dilation, axis, read)


def gathering(scatter: CellScatter) -> list[NestOp]:
    """The nests that take the place of a scatter, each of cells that the same offsets reach."""
    found = [gathered(scatter, parts) for parts in itertools.product(*scatter.parts)]
    derive(found, scatter.nest.location)
    return found


def gathered(scatter: CellScatter, parts: Sequence[Part]) -> NestOp:
    """The nest of some of the cells."""
    values, sizes, turns = dict[str, Linear](), dict(scatter.nest.space.data), list[tuple[str, int]]()
    func = scatter.nest.parent_op()
    assert isinstance(func, FuncOp)
    names = Names.of(func, scatter.nest)
    cells: dict[int, Linear] = {}
    for window, part in zip(scatter.windows, parts, strict=True):
        phase, piece = part.phase, part.piece
        several = len(piece.summed) > 1
        turn = Linear.of({window.offset: 1} if several else {}, piece.summed.start)
        element = Linear.of({window.position: 1}, piece.own.start)
        if part.other is not None:
            side = names.fresh(f"{window.position}_side")
            sizes[side] = 2
            turn += Linear.var(side) * (part.other.summed.start - piece.summed.start)
            element += Linear.var(side) * (part.other.own.start - piece.own.start)
        shifted = {window.position: element, window.offset: turn}
        values |= {name: value.substitute(shifted) for name, value in window.values(phase).items()}
        cells[window.axis] = (element + Linear((), window.elements(phase).start)) * window.stride
        cells[window.axis] += Linear((), phase + scatter.store.indices.data[window.axis].constant)
        sizes[window.position] = len(piece.own)
        del sizes[window.offset]
        turns += [(window.offset, len(piece.summed))] if several else []
    places = tuple(cells.get(axis, index) for axis, index in enumerate(scatter.store.indices.data))
    ops, total = terms_of(scatter)
    substitute_indices(ops, values)
    if turns:
        reduce = ReduceOp("add", turns, Region(Block([*ops, YieldOp(total)])), total.type)
        ops, total = [reduce], reduce.result
    nest = nest_of(
        scatter.nest.label.data, tuple(sizes.items()), [*ops, StoreOp(total, scatter.store.node, places)]
    )
    drop_unit_variables(nest)
    return nest


def terms_of(scatter: CellScatter) -> tuple[list[Operation], SSAValue]:
    """Copies of the operations that compute a term, and the term."""
    mapping: dict[SSAValue, SSAValue] = {}
    others = (scatter.store, scatter.old, scatter.added)
    ops = [op.clone(mapping) for op in scatter.nest.body.block.ops if op not in others]
    first, *factors = (mapping[term] for term in scatter.terms)
    for factor in factors:
        product = arith.MulfOp(first, factor)
        ops, first = [*ops, product], product.result
    return ops, first
