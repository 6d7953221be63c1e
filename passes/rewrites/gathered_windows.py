"""Sums that windows scatter become sums that each element gathers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, MemRefType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Linear, MapAttr, SpaceAttr, identity_map
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.read_cells import read_ranges
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import names_in, operations, steps_using
from ocannl.passes.analysis.patterns.resets import reset_to
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.indices import substitute_indices
from ocannl.passes.rewrites.rfactor import nest_of


@dataclass(frozen=True)
class Window:
    """An axis along which a position scatters to `stride*position + dilation*offset`.

    Attributes:
        position, positions: the variable of the nest, and its size; so `offset`, `offsets`.
        axis: the one of what is scattered that the position moves along.
        read: the cells of those that it scatters to which are read, between the first and the last one.
    """

    position: str
    positions: int
    offset: str
    offsets: int
    stride: int
    dilation: int
    axis: int
    read: range

    @property
    def phases(self) -> range:
        """The remainders that cells leave, divided by the stride."""
        return range(min(self.stride, self.offsets))

    @property
    def padding(self) -> tuple[int, int]:
        """The zeros before the first position, and after the last one."""
        elements = [(self.elements(phase), self.reach(phase)) for phase in self.phases]
        before = [reach - found[0] for found, reach in elements if found]
        after = [found[-1] - (self.positions - 1) for found, _ in elements if found]
        return max(0, *before, 0), max(0, *after, 0)

    @property
    def reaches_all(self) -> bool:
        """Whether it adds to each cell that is read."""
        last = self.stride * (self.positions - 1) + self.dilation * (self.offsets - 1)
        return self.offsets >= self.stride and self.read.start >= 0 and self.read.stop <= last + 1

    def offsets_of(self, phase: int) -> int:
        """How many offsets reach the elements that leave a remainder, divided by the stride."""
        return -(-(self.offsets - phase) // self.stride)

    def reach(self, phase: int) -> int:
        """How many positions before its own the last offset brings to an element."""
        return self.dilation * (self.offsets_of(phase) - 1)

    def elements(self, phase: int) -> range:
        """The elements of a phase that are read: the cells `stride*element + phase`."""
        first = -(-(self.read.start - phase) // self.stride)
        last = (self.read.stop - 1 - phase) // self.stride
        return range(max(0, first), min(self.positions + self.reach(phase), last + 1))

    def values(self, phase: int) -> dict[str, Linear]:
        """Position and offset that reach an element at a turn, of those of a phase. The element has the name
        of the position, and the turn that of the offset.
        """
        turn = Linear.var(self.offset) if self.offsets_of(phase) > 1 else Linear()
        element = Linear.of({self.position: 1}, self.elements(phase).start)
        return {
            self.position: element + turn * -self.dilation,
            self.offset: turn * self.stride + Linear((), phase),
        }


@dataclass(frozen=True)
class Scatter:
    """A nest that adds products to a node: of a load that moves with the positions of windows, and one that
    moves with their offsets.

    Attributes:
        moving: the load along the positions.
        total: what is added to the node, a reduction.
        is_complete: whether it adds to all cells that are read.
    """

    nest: NestOp
    store: StoreOp
    total: ReduceOp
    moving: LoadOp
    windows: tuple[Window, ...]
    is_complete: bool

    @property
    def names(self) -> set[str]:
        return {name for window in self.windows for name in (window.position, window.offset)}

    @property
    def positions(self) -> int:
        return math.prod(window.positions for window in self.windows)


def find_scatter(func: FuncOp, nest: NestOp) -> Scatter | None:
    """The scatter that a nest of a function is, if it is one whose windows overlap."""
    clashing = nest.clashing
    if not clashing:
        return None
    by_type = {kind: [op for op in nest.body.block.ops if type(op) is kind] for kind in ADDED}
    if any(len(found) != 1 for found in by_type.values()) or len(list(nest.body.block.ops)) != len(ADDED):
        return None
    (store,), (total,), (old,), (added,) = by_type.values()
    assert isinstance(store, StoreOp)
    assert isinstance(total, ReduceOp)
    assert isinstance(old, LoadOp)
    if set(added.operands) != {old.result, total.result} or store.value != added.results[0]:
        return None
    if store.positions or old.node != store.node or old.indices != store.indices or old.positions:
        return None
    read = read_ranges(func, store.node, nest)
    found = [Scatter(nest, store, total, load, *find_windows(nest, read, load)) for load in factors(total)]
    fitting = [scatter for scatter in found if scatter.windows and clashing <= scatter.names]
    return max(fitting, key=lambda scatter: scatter.positions, default=None)


# The operations of a nest that adds a reduction to memory.
ADDED = (StoreOp, ReduceOp, LoadOp, arith.AddfOp)


def factors(total: ReduceOp) -> list[LoadOp]:
    """Both loads of a sum of products that has nothing else; what is zero adds nothing to it."""
    product = total.yielded.owner
    ops = [op for op in total.body.block.ops if isinstance(op, LoadOp)]
    others = [op for op in total.body.block.ops if not isinstance(op, LoadOp | arith.ExtFOp)]
    if total.accum.data != "add" or total.where is not None or not isinstance(product, arith.MulfOp):
        return []
    widened = [v.owner.input if isinstance(v.owner, arith.ExtFOp) else v for v in product.operands]
    if len(ops) != 2 or len(others) != 2 or any(op.positions for op in ops):
        return []
    return ops if {op.result for op in ops} == set(widened) else []


def find_windows(nest: NestOp, read: Sequence[range], moving: LoadOp) -> tuple[tuple[Window, ...], bool]:
    """The windows of a nest whose positions are those of a load, as `moving[.., position, ..]`, and whether
    they reach all cells that are `read`; none if there are others.
    """
    sizes, found = dict(nest.space.data), list[Window]()
    (store,) = (op for op in nest.body.block.ops if isinstance(op, StoreOp))
    (total,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    is_complete = True
    (other,) = (load for load in factors(total) if load is not moving)
    own, others = names_in(moving.indices.data), names_in(other.indices.data)
    for index, cells in zip(store.indices.data, read, strict=True):
        if len(index.terms) < 2:
            is_complete &= cells == range(sizes.get(index.variable or "", 0))
            continue
        pair = [name for name, _ in index.terms if name in sizes]
        positions = [name for name in pair if name in own - others]
        offsets = [name for name in pair if name in others - own]
        axes = [k for k, i in enumerate(moving.indices.data) if positions and i.variable == positions[0]]
        if len(index.terms) != 2 or not len(positions) == len(offsets) == len(axes) == 1:
            return (), False
        (position,), (offset,) = positions, offsets
        stride, dilation = index.coefficient(position), index.coefficient(offset)
        uses = [name for i in (*store.indices.data, *moving.indices.data) for name in i.names]
        if min(stride, dilation) < 1 or (stride > 1 and dilation > 1) or uses.count(position) != 2:
            return (), False
        if uses.count(offset) != 1:
            return (), False
        first, last = cells.start - index.constant, cells.stop - index.constant
        window = Window(
            position, sizes[position], offset, sizes[offset], stride, dilation, axes[0], range(first, last)
        )
        is_complete &= window.reaches_all
        found.append(window)
    return tuple(found), is_complete


@dataclass(frozen=True)
class Gathered:
    """Nests that take the place of a scatter: those that reset a node and copy there what moves with the
    positions, and a sum for each phase.
    """

    reset: NestOp
    copy: NestOp
    sums: list[NestOp]


def gathered(func: FuncOp, scatter: Scatter, labels: Names) -> Gathered:
    """Replaces a scatter by a padded copy of what moves with the positions, and a sum for each phase."""
    nest = scatter.nest
    padded, before = pad(scatter, labels)
    after = [gather(scatter, padded.result, phases) for phases in all_phases(scatter.windows)]
    derive([padded, *before, *after], nest.location)
    declare(func, padded)
    for step in (*before, *after):
        Rewriter.insert_op(step, InsertPoint.before(nest))
    Rewriter.erase_op(nest)
    if scatter.is_complete:
        store_totals(func, after)
    return Gathered(*before, after)


def store_totals(func: FuncOp, after: Sequence[NestOp]) -> None:
    """Lets nests that add to all cells of a node that are read store there, if a nest before them resets
    these.
    """
    touching = steps_using(func, stored_node(after[0]))
    earlier = touching[: touching.index(after[0])]
    start = reset_to(earlier[-1]) if earlier else None
    if start is None or not is_zero(start):
        return
    Rewriter.erase_op(earlier[-1])
    for nest in after:
        store_total(nest)


def stored_node(nest: NestOp) -> SSAValue:
    (store,) = (op for op in nest.body.block.ops if isinstance(op, StoreOp))
    return store.node


def store_total(nest: NestOp) -> None:
    (old,) = (op for op in nest.body.block.ops if isinstance(op, LoadOp))
    (added,) = (op for op in nest.body.block.ops if isinstance(op, arith.AddfOp))
    (total,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    added.results[0].replace_all_uses_with(total.result)
    for op in (added, old):
        Rewriter.erase_op(op)


def is_zero(constant: arith.ConstantOp) -> bool:
    return isinstance(constant.value, FloatAttr) and constant.value.value.data == 0


def pad(scatter: Scatter, labels: Names) -> tuple[NodeOp, tuple[NestOp, NestOp]]:
    """A node with zeros around the values that move with the positions, and the nests that fill it."""
    source, type = scatter.moving.node, element_type(scatter.moving.node)
    around = {window.axis: window.padding for window in scatter.windows}
    sizes = {window.axis: window.positions for window in scatter.windows}
    inside = [sizes.get(axis, size) for axis, size in enumerate(memref_shape(source))]
    shape = [size + sum(around.get(axis, ())) for axis, size in enumerate(inside)]
    assert isinstance(source.owner, NodeOp)
    label = labels.fresh(f"{source.owner.label.data}.padded")
    node = NodeOp(label, "local", f"{source.owner.label.data} with zeros around", MemRefType(type, shape))
    names = [f"i{axis}" for axis in range(len(shape))]
    places = tuple(Linear.of({name: 1}, around.get(axis, (0,))[0]) for axis, name in enumerate(names))
    assert isinstance(type, AnyFloat)
    zero = arith.ConstantOp(FloatAttr(0.0, type))
    load = LoadOp(source, identity_map(names))
    reset = nest_of(
        f"{label} reset",
        tuple(zip(names, shape, strict=True)),
        [zero, StoreOp(zero.result, node.result, identity_map(names))],
    )
    filled = nest_of(
        label, tuple(zip(names, inside, strict=True)), [load, StoreOp(load.result, node.result, places)]
    )
    return node, (reset, filled)


def all_phases(windows: Sequence[Window]) -> Iterator[tuple[int, ...]]:
    """The remainders of elements along each axis, divided by its stride, of those that are read."""
    reached = [[phase for phase in window.phases if window.elements(phase)] for window in windows]
    return itertools.product(*reached)


def gather(scatter: Scatter, padded: SSAValue, phases: Sequence[int]) -> NestOp:
    """The nest that adds to all elements of a phase that are read."""
    nest = scatter.nest.clone()
    (total,) = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    moving = next(op for op in factors(total) if op.indices == scatter.moving.indices)
    values, sizes, turns = dict[str, Linear](), dict(nest.space.data), list[tuple[str, int]]()
    for window, phase in zip(scatter.windows, phases, strict=True):
        count = window.offsets_of(phase)
        values |= window.values(phase)
        sizes[window.position] = len(window.elements(phase))
        del sizes[window.offset]
        turns += [(window.offset, count)] if count > 1 else []
    substitute_indices(operations(nest.body.block), values)
    places = list(moving.indices.data)
    for window in scatter.windows:
        places[window.axis] += Linear((), window.padding[0])
    moving.operands[0] = padded
    moving.properties["indices"] = MapAttr(tuple(places))
    nest.properties["space"] = SpaceAttr(tuple(sizes.items()))
    total.properties["space"] = SpaceAttr((*turns, *total.space.data))
    return nest
