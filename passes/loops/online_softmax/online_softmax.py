"""`online-softmax`: attention block by block of its keys, with a running maximum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.kernel.gpu import HALF_BYTES, PROCESSORS
from ocannl.dialects.loops import FuncOp, LoadOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.approximate import APPROXIMATE
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import all_steps, declaration, names_in, nests, ungrouped, used_nodes
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.loops.online_softmax.blocks import BlockSizes, BlockSpace
from ocannl.passes.loops.online_softmax.hidden_blocks import visible_blocks
from ocannl.passes.loops.online_softmax.online_groups import GroupBuilder, OnlineBuilder, needed_points
from ocannl.passes.loops.online_softmax.placement import Placement, placement
from ocannl.passes.loops.online_softmax.raw_scores import keep_raw
from ocannl.passes.loops.online_softmax.reciprocals import keep_reciprocals
from ocannl.passes.loops.online_softmax.recognize import Softmax, has_features, recognize
from ocannl.passes.loops.online_softmax.row_products import shorten
from ocannl.passes.loops.online_softmax.score_nests import Kind, ScoreNest, ScoreNests, find_score_nests
from ocannl.passes.loops.online_softmax.steps import StepOrder
from ocannl.passes.loops.online_softmax.wide_scores import widen_scores
from ocannl.passes.rewrites.dead_stores import mark_virtual, remove_dead_stores

# The most rows and keys of a block, and the fewest that keep nests of it busy.
MOST_ROWS, MOST_KEYS = 64, 256
LEAST_ROWS, LEAST_KEYS = 16, 64
# Where a mask hides whole blocks, smaller ones leave out more; so few of them leave out too little.
MOST_KEYS_HIDDEN, LEAST_BLOCKS = 128, 4
# Those of a GPU, which its shared memory holds, and the fewest blocks of keys that a kernel goes through.
KERNEL_BLOCK, LEAST_KEYS_OF_KERNEL, LEAST_TURNS = BlockSizes(64, 32), 16, 4
# The keys of a block where scores are products of numbers of 16 bits, whose registers hold them.
KEYS_OF_HALVES = 64
# On Hopper, blocks of the first group for heads of so many features have more rows, if there are so many: two
# warpgroups share what is copied, and as many as before run at a time.
WIDE_FEATURES, WIDE_ROWS, LEAST_WIDE_BLOCKS = 128, 128, PROCESSORS
# The part of the second-level cache that the scores of a block of rows may take for all keys.
NEAR = 1 / 2


def softmaxes(func: FuncOp) -> list[Softmax]:
    """The softmaxes that are certain, and of which only sums leave a few nests."""
    maxima = [op for nest in nests(func) for op in nest.body.block.ops if isinstance(op, ReduceOp)]
    order = StepOrder(func)
    found = [softmax_of(order, reduction) for reduction in maxima if reduction.accum.data == "max"]
    return [softmax for softmax in found if softmax is not None]


def softmax_of(order: StepOrder, maximum: ReduceOp) -> Softmax | None:
    """The softmax that begins with a maximum over keys."""
    found = scores_of(order, maximum) if len(maximum.space.data) == 1 else None
    return None if found is None else recognize(order, found)


def scores_of(order: StepOrder, reduction: ReduceOp) -> ScoreNests | None:
    """The nests around what a maximum reduces."""
    (key,) = reduction.space.names
    loads = [op for op in reduction.body.block.ops if isinstance(op, LoadOp)]
    along = [op for op in loads if any(index.variable == key for index in op.indices.data)]
    return find_score_nests(order, along[0], key) if len(along) == 1 else None


def blocks_of(func: FuncOp, softmax: Softmax, target: TargetDescription) -> BlockSpace | None:
    """How rows and keys are cut into blocks; None where that does not pay: no mask hides some of several
    blocks, and the scores of a block of rows stay in a near cache; or where lengths have no such parts.
    """
    nests, length = softmax.nests, softmax.nests.shape[softmax.nests.keys]
    rows = largest_divisor(nests.shape[nests.rows], MOST_ROWS)
    found = BlockSpace.of(func, nests, BlockSizes(rows, largest_divisor(length, MOST_KEYS_HIDDEN)))
    found.visible = visible_blocks(softmax, found)
    if found.visible is None:
        found = BlockSpace.of(func, nests, BlockSizes(rows, largest_divisor(length, MOST_KEYS)))
    whole = sum(byte_size(declaration(node)) for node in nests.wide)
    is_far = whole // math.prod(nests.shape) * length * rows > NEAR * target.l2_bytes
    hides = found.visible is not None and length >= LEAST_BLOCKS * found.sizes.keys
    large = rows >= LEAST_ROWS and found.sizes.keys >= LEAST_KEYS
    return found if large and (is_far or hides) else None


def kernel_blocks_of(func: FuncOp, softmax: Softmax) -> BlockSpace | None:
    """The blocks of kernels for a GPU; None where lengths have no parts that are good for blocks, or too few.

    Blocks of one threadgroup run in turn, so a mask may hide some.
    """
    nests, most = softmax.nests, KERNEL_BLOCK
    rows, length = nests.shape[nests.rows], nests.shape[nests.keys]
    keys = max(most.keys, min(KEYS_OF_HALVES, length // LEAST_TURNS)) if has_halves(softmax) else most.keys
    sizes = BlockSizes(largest_divisor(rows, most.rows), largest_divisor(length, keys))
    if sizes.rows < LEAST_ROWS or sizes.keys < LEAST_KEYS_OF_KERNEL or length < LEAST_TURNS * sizes.keys:
        return None
    found = BlockSpace.of(func, nests, sizes)
    found.visible = visible_blocks(softmax, found)
    return found


def first_blocks_of(func: FuncOp, softmax: Softmax, space: BlockSpace) -> BlockSpace:
    """The blocks of the first group of kernels for Hopper, with more rows for wide heads in 16 bits."""
    nests = softmax.nests
    blocks = math.prod(nests.shape) // (nests.shape[nests.keys] * WIDE_ROWS)
    is_wide = has_halves(softmax) and features_of(softmax) >= WIDE_FEATURES
    if not is_wide or nests.shape[nests.rows] % WIDE_ROWS or blocks < LEAST_WIDE_BLOCKS:
        return space
    found = BlockSpace.of(func, nests, BlockSizes(WIDE_ROWS, space.sizes.keys))
    found.visible = visible_blocks(softmax, found)
    return found


def features_of(softmax: Softmax) -> int:
    """How many weighted sums a row has."""
    spaces = [[size for n, size in m.nest.space.data if n not in names_in(m.at)] for m in softmax.sums]
    return max(map(math.prod, spaces), default=1)


def approximate_exponentials(softmax: Softmax) -> None:
    """Lets exponentials be approximated, to more bits than products of numbers of 16 bits have."""
    if has_halves(softmax):
        for member in softmax.nests.members:
            for op in member.nest.body.block.ops:
                if isinstance(op, math_dialect.ExpOp):
                    op.properties["fastmath"] = APPROXIMATE


def has_halves(softmax: Softmax) -> bool:
    """Whether all products, of queries and keys as of weights and values, are of numbers of 16 bits."""
    loads = [
        load
        for member in softmax.nests.members
        if member.kind is Kind.POINTS or has_features(member)
        for reduction in member.reductions
        for load in reduction.body.block.ops
        if isinstance(load, LoadOp)
    ]
    return all(element_bytes(load.node) == HALF_BYTES for load in loads)


def rewrite(
    func: FuncOp, softmax: Softmax, space: BlockSpace, kernels: bool, warpgroups: bool = False
) -> bool:
    """Replaces the nests of a softmax by groups over blocks. Whether there is a place for these."""
    if any(place(func, softmax, sums) is None for sums in all_sums(softmax, kernels)):
        return False
    while shorten(softmax):
        again = softmax_of(StepOrder(func), softmax.maximum.reductions[0])
        assert again is not None
        softmax = again
    if not in_order(func, softmax, all_sums(softmax, kernels)):
        return False
    if kernels:
        approximate_exponentials(softmax)
    divisors = [member.nest for member in softmax.sums if adds_exponentials(member, softmax)]
    first = [softmax.maximum, *softmax.sums]
    space.nests = softmax.nests
    own = first_blocks_of(func, softmax, space) if warpgroups else space
    online = OnlineBuilder(func, softmax, own, first)
    builders: list[GroupBuilder] = [online]
    insert(func, softmax, online)
    _, *later = all_sums(softmax, kernels)
    for sums in later:
        builder = GroupBuilder(func, softmax, space, sums)
        insert(func, softmax, builder)
        builders.append(builder)
    if kernels:
        keep_reciprocals(func, divisors, [builder.group for builder in builders])
    for builder in builders if kernels else ():
        widen_scores(builder.group)
    if kernels:
        maxima = [softmax.maximum.stores[0].node, online.safe.result]
        replaced = {member.nest for member in softmax.nests.members if member.kind is Kind.POINTS}
        steps = [step for step in all_steps(func) if step not in replaced]
        keep_raw(steps, [builder.group for builder in builders], maxima, online.change)
    return True


def adds_exponentials(member: ScoreNest, softmax: Softmax) -> bool:
    """Whether a sum is that of the exponentials themselves, which is at least about 1."""
    value = member.reductions[0].yielded.owner
    while isinstance(value, arith.ExtFOp | arith.TruncFOp):
        value = value.operands[0].owner
    return isinstance(value, LoadOp) and value.node in softmax.exponential.member.written


def all_sums(softmax: Softmax, kernels: bool) -> list[list[ScoreNest]]:
    """The sums of each group. In kernels, sums over keys are apart from those over rows, so that what is
    added up is that of one block of threads.
    """
    levels = softmax.levels
    if kernels:
        parts = [[s for s in sums if s.kind is kind] for sums in levels for kind in (Kind.ROWS, Kind.KEYS)]
        levels = [sums for sums in parts if sums]
    return [[softmax.maximum, *softmax.sums], *levels]


def in_order(func: FuncOp, softmax: Softmax, groups: Sequence[Sequence[ScoreNest]]) -> bool:
    """Whether groups, each in the place of its last sum, stand behind those whose sums they read."""
    place_of = {step: place for place, step in enumerate(all_steps(func))}
    earlier: list[tuple[int, set[SSAValue]]] = []
    for sums in groups:
        own = max(place_of[member.nest] for member in sums)
        read = {node for m in (*needed_points(softmax, sums), *sums) for node in used_nodes(m.nest)}
        if any(other > own and not read.isdisjoint(nodes) for other, nodes in earlier):
            return False
        earlier.append((own, {node for member in sums for node in member.written}))
    return True


def place(func: FuncOp, softmax: Softmax, sums: Sequence[ScoreNest]) -> Placement | None:
    return placement(func, needed_points(softmax, sums), sums, softmax.nests.members)


def insert(func: FuncOp, softmax: Softmax, builder: GroupBuilder) -> None:
    """Builds a group at its place."""
    found = place(func, softmax, builder.sums)
    if found is None:
        return
    last = found.last.nest
    builder.build()
    for nest in builder.resets:
        Rewriter.insert_op(nest, InsertPoint.before(last))
    Rewriter.insert_op(builder.group, InsertPoint.before(last))
    for member in builder.sums:
        if member.nest is not last:
            member.nest.detach()
            Rewriter.insert_op(member.nest, InsertPoint.before(last))
    for step in reversed(found.behind):
        step.detach()
        Rewriter.insert_op(step, InsertPoint.after(last))


# Why what is computed from the scores of one block at a time has no memory.
IN_BLOCKS = "computed block by block where it is used, and never whole"


@dataclass(frozen=True)
class OnlineSoftmaxPass(TargetOptions, ModulePass):
    """FlashAttention (Dao et al., 2022): attention block by block of its keys, which keeps no scores.

    It applies to nests of the pattern of a softmax over scores of which only sums are read: a maximum over
    the keys of each row, exponentials of the scores without it, and sums of these, by themselves and as
    weights. These become a group over blocks of rows and keys that holds the scores of one block. It keeps
    the maximum so far of each row, and scales what was summed up when that grows (Milakov and Gimelshein,
    "Online normalizer calculation for softmax", 2018); divisions by a sum of the row come at the end. Other
    sums over the same scores, such as those of the backward pass, are groups that compute these again.

    Blocks that a causal mask hides are left out of sums that are 0 there, as those of weights are. Nothing is
    done where there are none, and the scores of a block of rows stay in the second-level cache anyway; or
    where lengths have no divisors that are good for blocks.

    Attributes:
        kernels: the groups are for a GPU, where each becomes a kernel, with blocks for its shared memory.
        warpgroups: that is one of Hopper.
    """

    name = "online-softmax"

    kernels: bool = False
    warpgroups: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            inside = set[SSAValue]()
            for softmax in softmaxes(func):
                own = kernel_blocks_of(func, softmax) if self.kernels else None
                space = own if self.kernels else blocks_of(func, softmax, self.target)
                if space is not None and rewrite(func, softmax, space, self.kernels, self.warpgroups):
                    inside.update(softmax.nests.wide)
            if inside:
                remove_dead_stores(func)
                mark_virtual(func, dict.fromkeys(inside, IN_BLOCKS))
