"""Groups over blocks whose scores fit into the registers of warps, such as attention on tensor cores.

Each warp owns 16 rows of a block: of queries in the forward pass, of keys for the gradients of keys and
values.
What products of fragments give of scores lies in threads as the next product takes it
(Dao, "FlashAttention-2", 2023), so that scores need neither shared memory nor barriers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

from xdsl.dialects.builtin import BFloat16Type, Float32Type
from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Map
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.kernel.gpu import HALF_BYTES, SWIZZLED_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.mma import COLUMNS, FRAGMENTS, ROWS
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.accumulators import Accumulator
from ocannl.lowering.loops_to_kernels.options import KernelOptions, Types
from ocannl.lowering.loops_to_kernels.tensor_cores import fits_tensor_cores
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.contractions import Contraction, find_contraction, is_sum_of_products

# The warps of a block at most, and the registers that a thread may have for sums and scores.
WARPS, REGISTERS = 8, 144
# Those for Hopper, for which ptxas spills later.
HOPPER_REGISTERS = 192
# So many bf16 are as exact as an f32; and so many where TF32 would be, too.
EXACT_PARTS, ROUNDED_PARTS = 3, 2
# The rows of a warpgroup.
GROUP_ROWS = 4 * ROWS
# The arrays of a ring.
STAGES = 2


class Work(Enum):
    """`POINTS` of scores, `ROWS` reduced along the blocks in turn, `PRODUCT` of scores with a matrix."""

    POINTS = auto()
    ROWS = auto()
    PRODUCT = auto()


@dataclass(frozen=True)
class PlannedNest:
    """A nest of the group.

    Attributes:
        own, turn: its variables along the rows of warps, and along the blocks in turn.
        product: the product on tensor cores, if it has one.
        parts: scores are multiplied as the sum of so many numbers of 16 bits; 0 where they stay as they are.
    """

    nest: NestOp
    work: Work
    own: str
    turn: str
    product: Contraction | None = None
    parts: int = 0


@dataclass(frozen=True)
class Plan:
    """A group whose scores fit into registers, in blocks of `rows` x `columns`; a turn has the columns.

    With `warpgroups` its products are those of warpgroups.
    """

    nests: list[PlannedNest]
    wide: set[SSAValue]
    turn: tuple[str, int]
    rows: int
    columns: int
    own_axis: int
    warpgroups: bool = False


def plan(group: GroupOp, options: KernelOptions, kept: Sequence[Accumulator]) -> Plan | None:
    """How scores stay in registers; None where they cannot."""
    turns = [(name, size) for name, size in group.space.data if name in group.clashing]
    inside: list[SSAValue] = [node.result for node in group.nodes]
    wide = {node for node in inside if len(memref_shape(node)) == 2}
    shapes = {memref_shape(node) for node in wide}
    own_axes = {axis for nest in group.nests if (axis := own_axis(nest, wide)) is not None}
    if len(turns) != 1 or len(shapes) != 1 or len(own_axes) != 1:
        return None
    (shape,), (axis,) = shapes, own_axes
    if any(memref_shape(node) != (shape[axis],) for node in inside if node not in wide):
        return None
    found = [planned(nest, wide, axis, options.tensor_types) for nest in group.nests]
    nests = [one for one in found if one is not None]
    rows, columns = shape[axis], shape[1 - axis]
    warpgroups = options.warpgroups and for_warpgroups(nests, wide, rows)
    made = Plan(nests, wide, turns[0], rows, columns, axis, warpgroups)
    fits = len(nests) == len(found) and keeps_all(nests, {*inside, *(one.node for one in kept)})
    most = HOPPER_REGISTERS if options.warpgroups else REGISTERS
    return made if fits and has_room(made, most) and tile_bytes(made) <= options.shared_bytes else None


def keeps_all(nests: Sequence[PlannedNest], known: set[SSAValue]) -> bool:
    """Whether nests store to nodes of the group and to accumulators only."""
    ops = [op for one in nests for op in operations(one.nest.body.block)]
    return all(op.node in known for op in ops if isinstance(op, StoreOp))


def has_room(plan: Plan, registers: int) -> bool:
    """Whether warps have whole fragments, and so many registers room for what threads keep."""
    warps, rest = divmod(plan.rows, ROWS)
    if rest or not 0 < warps <= WARPS or plan.columns % (2 * COLUMNS):
        return False
    sums = 0
    for one in plan.nests:
        if one.work is Work.PRODUCT:
            ((_, features),) = [(n, size) for n, size in one.nest.space.data if n != one.own]
            if features % COLUMNS:
                return False
            sums += features // COLUMNS * 4
    is_packed = all(element_bytes(one.product.right.node) == HALF_BYTES for one in plan.nests if one.product)
    return sums + (2 if is_packed else 3) * plan.columns // COLUMNS * 4 <= registers


def for_warpgroups(nests: Sequence[PlannedNest], wide: set[SSAValue], rows: int) -> bool:
    """Whether warpgroups have instructions for all products: of numbers of 16 bits, from tiles whose rows
    fill those of swizzled arrays.
    """
    return (
        rows % GROUP_ROWS == 0
        and all(
            load.node in wide or fills_rows(one.nest, load)
            for one in nests
            if one.product is not None
            for load in (one.product.left, one.product.right)
        )
        and not any(one.parts for one in nests)
    )


def fills_rows(nest: NestOp, load: LoadOp) -> bool:
    """Whether what a nest reads of a matrix of 16 bits along its rows in memory are swizzled rows."""
    sizes = with_reduction(nest)
    along = [size for name, size in sizes.items() if abs(address_of(load).stride(name)) == 1]
    bytes = element_bytes(load.node)
    return bytes == HALF_BYTES and [size * bytes % SWIZZLED_BYTES for size in along] == [0]


def with_reduction(nest: NestOp) -> dict[str, int]:
    """The variables of a nest and of its reductions, with their sizes."""
    reduces = (op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    return dict(nest.space.data) | {name: size for op in reduces for name, size in op.space.data}


def tile_bytes(plan: Plan) -> int:
    """The shared memory that tiles of operands take: in two stages along the turns, and with padded rows."""
    found: dict[tuple[SSAValue, bool], int] = {}
    for one in plan.nests:
        for load in () if one.product is None else (one.product.left, one.product.right):
            if one.product is None or load.node in plan.wide:
                continue
            names = {name for index in load.indices.data for name in index.names}
            is_own = one.own in names
            sizes = {**dict(one.nest.space.data), **dict(one.product.reduce.space.data)}
            sides = [size for name, size in sizes.items() if name in names]
            bytes = math.prod(sides) * element_bytes(load.node) + max(sides) * VECTOR_BYTES
            found[load.node, is_own] = bytes if is_own else STAGES * bytes
    return sum(found.values())


def own_axis(nest: NestOp, wide: set[SSAValue]) -> int | None:
    """The axis of scores along which a nest does not reduce, if it reduces along the other one."""
    at, names = place(nest, wide), set(nest.space.names)
    inside = [] if at is None else [axis for axis, index in enumerate(at) if index.variable in names]
    return inside[0] if len(inside) == 1 else None


def place(nest: NestOp, wide: set[SSAValue]) -> Map | None:
    """Where a nest touches scores, if it does at one place, by two of its variables."""
    ops = [op for op in operations(nest.body.block) if isinstance(op, LoadOp | StoreOp)]
    maps = {op.indices.data for op in ops if op.node in wide}
    if len(maps) != 1 or any(op.positions for op in ops):
        return None
    (at,) = maps
    return at if len({index.variable for index in at} - {None}) == 2 else None


def planned(nest: NestOp, wide: set[SSAValue], axis: int, types: Types) -> PlannedNest | None:
    """A nest with how it uses scores; None where that is nothing known."""
    at = place(nest, wide)
    ops = list(nest.body.block.ops)
    reduces = [op for op in ops if isinstance(op, ReduceOp)]
    if at is None or any(op.regions for op in ops if op not in reduces) or len(reduces) > 1:
        return None
    own, turn = at[axis].variable, at[1 - axis].variable
    assert own is not None
    assert turn is not None
    names = set(nest.space.names)
    if names == {own, turn}:
        return points(nest, own, turn, reduces, types)
    if len(reduces) != 1 or reduces[0].space.names != (turn,) or reduces[0].where is not None:
        return None
    if any(isinstance(op, ReduceOp) for op in operations(reduces[0].body.block)):
        return None
    if names == {own}:
        return PlannedNest(nest, Work.ROWS, own, turn)
    return weighted(nest, own, turn, wide, types) if own in names and len(names) == 2 else None


def points(
    nest: NestOp, own: str, turn: str, reduces: Sequence[ReduceOp], types: Types
) -> PlannedNest | None:
    """Points of scores, of which each may be a sum of products for tensor cores."""
    if not reduces:
        return PlannedNest(nest, Work.POINTS, own, turn)
    found = find_contraction(nest)
    if found is None or found.reduce is not reduces[0] or {found.row, found.column} != {own, turn}:
        return None
    if not fits_tensor_cores(found, types) or len(found.reduce.space.data) != 1:
        return None
    fragments = FRAGMENTS[type(element_type(found.left.node))]
    fits = found.reduce.space.data[0][1] % fragments.depth == 0 and fragments.sums == found.reduce.result.type
    is_float = element_type(found.left.node).__class__ in (Float32Type, *half_types())
    return PlannedNest(nest, Work.POINTS, own, turn, found) if fits and is_float else None


def half_types() -> Types:
    """The types of which two elements share a register."""
    return [type for type, fragments in FRAGMENTS.items() if fragments.pack > 1]


def weighted(nest: NestOp, own: str, turn: str, wide: set[SSAValue], types: Types) -> PlannedNest | None:
    """A product of scores with a matrix for tensor cores."""
    found = find_contraction(nest)
    if found is None or found.k != turn:
        return None
    scores, other = scores_first(found, wide)
    if scores.node not in wide or other.node in wide:
        return None
    if fits_tensor_cores(found, types):
        return PlannedNest(nest, Work.PRODUCT, own, turn, found)
    one, two = (element_type(load.node).__class__ for load in (scores, other))
    if one is not Float32Type or two is not BFloat16Type or two not in types or not is_sum_of_products(found):
        return None
    parts = ROUNDED_PARTS if Float32Type in types else EXACT_PARTS
    return PlannedNest(nest, Work.PRODUCT, own, turn, found, parts)


def scores_first(found: Contraction, wide: set[SSAValue]) -> tuple[LoadOp, LoadOp]:
    """The loads of a product, that of scores first."""
    return (found.left, found.right) if found.left.node in wide else (found.right, found.left)
