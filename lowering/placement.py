"""Loop-invariant placement of operations: each in the outermost loop that defines all its operands.

The dependences of a value are a set of loops around it, as a bit mask with the outermost loop in bit 0: its
bit length is then the number of loops that the value stands in.
"""

from __future__ import annotations

from dataclasses import field

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass


@dataclass(slots=True)
class Level:
    """A loop, and the operations to compute on entering its body."""

    variable: str
    size: int
    ops: list[Operation] = field(default_factory=list[Operation])


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction's own loops, and whether its result differs between the rows and lanes of the tile.

    `product` is a multiplication that only this sum uses, as part of its innermost step. `contiguous` tells
    that the innermost loop is worth vectors: all it loads is contiguous.
    """

    levels: list[Level]
    rows: bool
    lanes: bool
    product: arith.MulfOp | None
    contiguous: bool


@dataclass(slots=True)
class Placement:
    """The operations of a nest at their places; `root` holds what is computed once."""

    root: list[Operation]
    levels: list[Level]
    reductions: dict[ReduceOp, Reduction]
    addresses: dict[Operation, Address]


def place(nest: NestOp, schedule: Schedule) -> Placement:
    """Finds the place of every operation of a nest, and flattens its index maps."""
    return _Placing(nest, schedule).result


class _Placing:
    def __init__(self, nest: NestOp, schedule: Schedule) -> None:
        self.schedule = schedule
        sizes = schedule.loops(nest.space.data)
        levels = [Level(name, sizes[name]) for name in schedule.order or sizes]
        self.own = len(levels)
        self.result = Placement([], levels, {}, {})
        self.rows = schedule.rows[0] if schedule.rows else None
        self.lanes = schedule.lanes[0] if schedule.lanes else None
        self.masks: dict[SSAValue, int] = {}
        self.stored = {op.node for op in nest.body.block.ops if isinstance(op, StoreOp)}
        self.bits = {level.variable: 1 << k for k, level in enumerate(levels)}
        self.place_block(nest.body.block, levels)

    def place_block(self, block: Block, path: list[Level]) -> int:
        """Places the operations of a block; returns all loops that they depend on."""
        root, masks = self.result.root, self.masks
        total = 0
        for op in block.ops:
            if isinstance(op, YieldOp):
                break
            mask = self.mask(op, path)
            total |= mask
            for result in op.results:
                masks[result] = mask
            depth = mask.bit_length()
            (path[depth - 1].ops if depth else root).append(op)
        return total

    def mask(self, op: Operation, path: list[Level]) -> int:
        match op:
            case LoadOp():
                mask = self.mask_at(op)
                # A cell that this nest also writes is read in the order of the text.
                return mask | self.innermost if op.node in self.stored else mask
            case StoreOp():
                self.mask_at(op)
                return self.innermost
            case IndexOp():
                return self.mask_at(op)
            case ReduceOp():
                return self.place_reduction(op, path)
            case _:
                mask = 0
                for operand in op.operands:
                    mask |= self.masks[operand]
                return mask

    @property
    def innermost(self) -> int:
        return 1 << (self.own - 1) if self.own else 0

    def mask_at(self, op: LoadOp | StoreOp | IndexOp) -> int:
        """The loops that the place of an access depends on."""
        self.result.addresses[op] = address = address_of(op).merge(self.schedule.merged)
        mask = 0
        for position in () if isinstance(op, IndexOp) else op.positions:
            mask |= self.masks[position]
        for name, _ in address.terms:
            mask |= self.bits.get(name, 0)
        return mask

    def place_reduction(self, op: ReduceOp, outer: list[Level]) -> int:
        levels = [Level(name, size) for name, size in self.schedule.loops(op.space.data).items()]
        for k, level in enumerate(levels):
            self.bits[level.variable] = 1 << (len(outer) + k)
        total = self.place_block(op.body.block, outer + levels)
        mask = (total | self.masks.get(op.yielded, 0)) & ((1 << len(outer)) - 1)
        rows, lanes = self.varies(mask, self.rows), self.varies(mask, self.lanes)
        contiguous = bool(levels) and self.is_contiguous(levels[-1])
        self.result.reductions[op] = Reduction(levels, rows, lanes, take_product(op, levels), contiguous)
        for level in levels:
            del self.bits[level.variable]
        return mask

    def is_contiguous(self, level: Level) -> bool:
        addresses = self.result.addresses
        strides = {addresses[op].stride(level.variable) for op in level.ops if isinstance(op, LoadOp)}
        return strides <= {0, 1} and 1 in strides and not any(isinstance(op, ReduceOp) for op in level.ops)

    def varies(self, mask: int, variable: str | None) -> bool:
        return variable is not None and mask & self.bits.get(variable, 0) != 0


def take_product(op: ReduceOp, levels: list[Level]) -> arith.MulfOp | None:
    """Removes the product that a sum accumulates if it has no other use, to fuse it; returns it."""
    product = op.yielded.owner
    if op.accum.data != "add" or not isinstance(product, arith.MulfOp) or not levels:
        return None
    if product not in levels[-1].ops or not product.result.has_one_use():
        return None
    levels[-1].ops.remove(product)
    return product
