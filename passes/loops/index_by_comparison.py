"""`index-by-comparison`: searches along an axis for one position become indexed accesses.

A sum over `v` of `x[v]` where `v == id`, and of 0 elsewhere, is `x[id]`: a gather. A nest over `v` that sums
the values of the points with `id == v` is a nest over those points, each of which adds to the cell `id`: a
scatter. Both are products with a one-hot matrix that is never made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, ModuleOp, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import POSITION, Linear, MapAttr, SpaceAttr, identity_map
from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.ir.origins import derive, inherit
from ocannl.dialects.loops import FuncOp, IndexOp, LoadOp, NestOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import accumulate, builder_for, neutral_constant
from ocannl.dialects.scalar.arith_builder import ArithBuilder
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.term_lowering import constant, converted, resized_float
from ocannl.passes.analysis.names import Names, fresh_label, labels_of
from ocannl.passes.analysis.nests import functions, names_in, nests, operations, points, with_reduced
from ocannl.passes.analysis.patterns.one_hot import OneHot, chosen, placing
from ocannl.passes.analysis.values.slices import backward_slice, slice_in
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.declarations import declare
from ocannl.passes.rewrites.indices import Copier
from ocannl.passes.rewrites.inline_reduction import inline_reduction

# How contributions are accumulated, of floats and of integers.
ACCUMULATIONS: Mapping[str, tuple[type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "mul": (arith.MulfOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
}


def substitute_id(block: Block, one_hot: OneHot) -> SSAValue:
    """Substitutes the id for a variable that is compared with it, throughout a block; returns whether the id
    is a position.

    The operations that compute the id are moved to the front.
    """
    first = slice_in(block, [one_hot.id])
    for op in first:
        op.detach()
    following = list(block.ops)
    b = builder_for(one_hot.id.type)
    found = PositionOp(integer_id(one_hot.id), one_hot.size)
    holds = b.truth_const(True)
    derive([found, *b.ops], one_hot.comparison.location)
    block.insert_ops_before([*first, found, *b.ops], following[0])
    for op in with_reduced(following):
        if isinstance(op, LoadOp | StoreOp):
            move_access(op, one_hot.variable, found.position)
        elif isinstance(op, IndexOp):
            move_index(op, one_hot)
    one_hot.comparison.result.replace_all_uses_with(holds)
    return found.inside


def integer_id(id: SSAValue) -> SSAValue:
    """The integer of 32 or 64 bits that was converted to a float for the comparison, if there was one; else
    the id.
    """
    if isinstance(id.owner, arith.SIToFPOp) and id.owner.operands[0].type in (i32, i64):
        return id.owner.operands[0]
    return id


def move_access(op: LoadOp | StoreOp, variable: str, position: SSAValue) -> None:
    """Substitutes a position for a variable in an access."""
    if variable not in names_in(op.indices.data):
        return
    known = list(op.positions)
    if position not in known:
        known.append(position)
        op.operands = [*op.operands, position]
    name = Linear.var(f"{POSITION}{known.index(position)}")
    op.properties["indices"] = MapAttr(tuple(i.substitute({variable: name}) for i in op.indices.data))


def move_index(op: IndexOp, one_hot: OneHot) -> None:
    """Substitutes the id for a variable in an index expression."""
    coefficient = op.index.coefficient(one_hot.variable)
    if coefficient == 0:
        return
    type = op.result.type
    b = builder_for(type)
    value = number_as(b, one_hot.id, type)
    if coefficient != 1:
        value = accumulate(b, "mul", value, constant(b, coefficient, type))
    remainder = op.index + Linear.var(one_hot.variable) * -coefficient
    if remainder != Linear():
        others = IndexOp(remainder, type)
        b.ops.append(others)
        value = accumulate(b, "add", value, others.result)
    block = op.parent
    if b.ops:
        assert block is not None
        block.insert_ops_before(b.ops, op)
    op.result.replace_all_uses_with(value)
    inherit(value, op, b.ops)
    Rewriter.erase_op(op)


def number_as(b: ArithBuilder, value: SSAValue, type: Attribute) -> SSAValue:
    """An index, a number of 32 or 64 bits, in another type."""
    if is_float(value.type) and is_float(type):
        return resized_float(b, value, type)
    return converted(b, value, value.type, type)


def gather(reduce: ReduceOp) -> bool:
    """Removes a variable from a reduction of which only one value contributes; returns whether it did."""
    one_hot = next(chosen(reduce), None)
    if one_hot is None:
        return False
    _gather(reduce, one_hot)
    return True


def _gather(reduce: ReduceOp, one_hot: OneHot) -> None:
    inside = substitute_id(reduce.body.block, one_hot)
    last = reduce.body.block.last_op
    assert isinstance(last, YieldOp)
    b = builder_for(last.value.type)
    chosen = b.select(inside, last.value, neutral_constant(b, reduce.accum.data, last.value.type))
    derive(b.ops, reduce.location)
    reduce.body.block.insert_ops_before(b.ops, last)
    last.operands[0] = chosen
    reduce.properties["space"] = SpaceAttr(tuple(d for d in reduce.space.data if d[0] != one_hot.variable))
    if not reduce.space.data:
        inline_reduction(reduce)


@dataclass(frozen=True, slots=True)
class Scatter:
    """A reduction in a nest whose points each contribute only to the cells that `one_hots` name.

    Each compares a variable of the nest with an id that varies in the reduction.
    """

    nest: NestOp
    reduce: ReduceOp
    one_hots: Sequence[OneHot]


def find_scatter(nest: NestOp, searched: int) -> Scatter | None:
    if nest.schedule is not None:
        return None
    for op in nest.body.block.ops:
        if isinstance(op, ReduceOp) and op.accum.data in ACCUMULATIONS:
            if points(nest.space.data) * points(op.space.data) <= searched:
                continue
            found = list(placing(op, dict(nest.space.data)))
            if found:
                return Scatter(nest, op, found)
    return None


class Scatterer:
    """Rewrites nests of one function that search through more than `searched` points as scatters."""

    def __init__(self, func: FuncOp, searched: int) -> None:
        self.func = func
        self.searched = searched

    def run(self, nest: NestOp) -> None:
        """Rewrites the scatters in a nest as nests of their own."""
        while (found := find_scatter(nest, self.searched)) is not None:
            store = self.store_of(found)
            if store is None:
                self.separate(found)
            else:
                self.rewrite(found, store)
                return

    def store_of(self, scatter: Scatter) -> StoreOp | None:
        """The store of the nest, if it is the only one and can accumulate contributions one by one; else
        None.
        """
        stores = [op for op in scatter.nest.body.block.ops if isinstance(op, StoreOp)]
        if len(stores) != 1 or scatter.nest.clashing:
            return None
        (store,) = stores
        reduce = scatter.reduce
        if not reduce.result.has_one_use() or loaded_type(store.node) != reduce.result.type:
            return None
        if any(isinstance(op, LoadOp) and op.node is store.node for op in backward_slice([reduce.result])):
            return None
        return store if store.value is reduce.result or self.others_of(scatter, store) is not None else None

    def others_of(self, scatter: Scatter, store: StoreOp) -> SSAValue | None:
        """`x` of a stored `x + contributions`."""
        op, result = store.value.owner, scatter.reduce.result
        if not isinstance(op, ACCUMULATIONS[scatter.reduce.accum.data]) or result not in op.operands:
            return None
        return next((operand for operand in op.operands if operand is not result), None)

    def separate(self, scatter: Scatter) -> None:
        """Gives the reduction a nest and a node of its own."""
        nest, reduce = scatter.nest, scatter.reduce
        type = MemRefType(reduce.result.type, [size for _, size in nest.space.data])
        label = fresh_label(f"{nest.label.data}.parts", labels_of(self.func).used)
        node = NodeOp(label, "local", f"scattered for {nest.label.data}", type)
        declare(self.func, node)
        indices = identity_map(nest.space.names)
        copier = Copier(Names(set()), {})
        copied = [copier.copy(op) for op in slice_in(nest.body.block, [reduce.result])]
        store = StoreOp(copier.values[reduce.result], node.result, indices)
        own = NestOp(label, nest.space.data, Region(Block([*copied, store])))
        own.location = nest.location
        Rewriter.insert_op(own, InsertPoint.before(nest))
        load = LoadOp(node.result, indices)
        derive([node, own, load], reduce.location)
        nest.body.block.insert_op_before(load, reduce)
        reduce.result.replace_all_uses_with(load.result)
        Rewriter.erase_op(reduce)
        remove_unused_operations(nest.body.block)
        self.run(own)

    def rewrite(self, scatter: Scatter, store: StoreOp) -> None:
        """Leaves a nest the values beside the contributions, which a nest after it adds."""
        nest = scatter.nest
        own = self.contributions(scatter, store)
        Rewriter.insert_op(own, InsertPoint.after(nest))
        others = self.others_of(scatter, store)
        if others is None:
            b = builder_for(store.value.type)
            others = neutral_constant(b, scatter.reduce.accum.data, store.value.type)
            derive(b.ops, store.location)
            nest.body.block.insert_ops_before(b.ops, store)
        store.operands[0] = others
        remove_unused_operations(nest.body.block)
        if is_same_cell(others, store):
            Rewriter.erase_op(nest)

    def contributions(self, scatter: Scatter, store: StoreOp) -> NestOp:
        """The nest over the points of the reduction, which accumulate one after the other."""
        nest, reduce = scatter.nest, scatter.reduce
        copier = Copier(Names(set()), {})
        around = [copier.copy(op) for op in slice_in(nest.body.block, [reduce.result]) if op is not reduce]
        inner = [copier.copy(op) for op in reduce.body.block.ops if not isinstance(op, YieldOp)]
        old = LoadOp(store.node, store.indices.data)
        b = builder_for(reduce.result.type)
        new = accumulate(b, reduce.accum.data, old.result, copier.values[reduce.yielded])
        stored = StoreOp(new, store.node, store.indices.data)
        block = Block([*around, *inner, old, *b.ops, stored])
        placed = {one_hot.variable for one_hot in scatter.one_hots}
        for one_hot in scatter.one_hots:
            comparison = copier.values[one_hot.comparison.result].owner
            assert isinstance(comparison, arith.CmpfOp | arith.CmpiOp)
            id = copier.values.get(one_hot.id, one_hot.id)
            inside = substitute_id(block, OneHot(comparison, one_hot.variable, one_hot.size, id))
            guard = ArithBuilder(b.type)
            stored.operands[0] = guard.select(inside, stored.value, old.result)
            block.insert_ops_before(guard.ops, stored)
        space = (*reduce.space.data, *(d for d in nest.space.data if d[0] not in placed))
        own = NestOp(f"{nest.label.data} scatter", space, Region(block))
        own.location = nest.location
        derive(block.ops, reduce.location)
        remove_unused_operations(block)
        return own


def is_same_cell(value: SSAValue, store: StoreOp) -> bool:
    """Whether a value is the present content of the cell that a store writes."""
    op = value.owner
    return isinstance(op, LoadOp) and op.node is store.node and op.indices == store.indices


@dataclass(frozen=True)
class IndexByComparisonPass(ModulePass):
    """Replaces reductions over a variable that is compared with an id by accesses at that id: gathers, and
    scatters for nests whose cells each search for the points that contribute to them.

    It applies where the reduced value is the accumulation's neutral element unless the variable equals a
    number that does not depend on it. Results stay the same to the bit, except that scattered sums are added
    one by one to the present value, and that products with 0 count as 0 although the other factor, elsewhere,
    is infinite or NaN.

    Attributes:
        searched: cells that search through at most so many points in all go on doing so: a GPU does it at
            once, and in one kernel with what follows.
    """

    name = "index-by-comparison"

    searched: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in nests(func):
                rewrite_nest(func, nest, self.searched)


def rewrite_nest(func: FuncOp, nest: NestOp, searched: int) -> None:
    if not any(isinstance(op, arith.CmpfOp | arith.CmpiOp) for op in operations(nest.body.block)):
        return
    changed = False
    for op in reversed(operations(nest.body.block)):
        if isinstance(op, ReduceOp):
            while op.parent is not None and gather(op):
                changed = True
    if changed:
        remove_unused_operations(nest.body.block)
    Scatterer(func, searched).run(nest)
