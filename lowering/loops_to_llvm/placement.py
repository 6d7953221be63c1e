"""Where each operation of a nest is computed: in the outermost loop that knows its operands.

A value's dependence is a set of loops around it, as a bit mask with the outermost loop in bit 0: its bit length is
then the number of loops that the value stands in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.linear import Linear
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, Schedule, StoreOp, YieldOp


@dataclass(slots=True)
class Level:
    """A loop, and the operations to compute on entering its body."""

    variable: str
    size: int
    ops: list[Operation] = field(default_factory=list[Operation])


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction's own loops, and whether its result differs between the rows and lanes of the tile."""

    levels: list[Level]
    rows: bool
    lanes: bool


@dataclass(frozen=True, slots=True)
class Address:
    """A linear index expression over variables: a position in a node, in elements."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def stride(self, variable: str | None) -> int:
        for name, coefficient in self.terms:
            if name == variable:
                return coefficient
        return 0


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
        sizes = dict(nest.space.data)
        order = schedule.order or nest.space.names
        levels = [Level(name, sizes[name]) for name in order]
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
                mask = self.access(op, op.node, op.indices.data)
                # A cell that this nest also writes is read in the order of the text.
                return mask | self.innermost if op.node in self.stored else mask
            case StoreOp():
                self.access(op, op.node, op.indices.data)
                return self.innermost
            case IndexOp():
                self.result.addresses[op] = Address(op.index.terms, op.index.constant)
                return self.index_mask(op.index)
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

    def index_mask(self, index: Linear) -> int:
        mask = 0
        for name, _ in index.terms:
            mask |= self.bits.get(name, 0)
        return mask

    def access(self, op: Operation, node: SSAValue, indices: tuple[Linear, ...]) -> int:
        self.result.addresses[op] = address = flatten(node, indices)
        mask = 0
        for name, _ in address.terms:
            mask |= self.bits.get(name, 0)
        return mask

    def place_reduction(self, op: ReduceOp, outer: list[Level]) -> int:
        levels = [Level(name, size) for name, size in op.space.data]
        for k, level in enumerate(levels):
            self.bits[level.variable] = 1 << (len(outer) + k)
        total = self.place_block(op.body.block, outer + levels)
        mask = (total | self.masks.get(op.yielded, 0)) & ((1 << len(outer)) - 1)
        self.result.reductions[op] = Reduction(
            levels, self.varies(mask, self.rows), self.varies(mask, self.lanes)
        )
        for level in levels:
            del self.bits[level.variable]
        return mask

    def varies(self, mask: int, variable: str | None) -> bool:
        return variable is not None and mask & self.bits.get(variable, 0) != 0


def flatten(node: SSAValue, indices: tuple[Linear, ...]) -> Address:
    """The position of an element in a row-major node."""
    assert isinstance(node.type, MemRefType)
    shape = node.type.get_shape()
    terms: dict[str, int] = {}
    constant, stride = 0, math.prod(shape)
    for index, size in zip(indices, shape, strict=True):
        stride = stride // size if size else 0
        constant += index.constant * stride
        for name, coefficient in index.terms:
            terms[name] = terms.get(name, 0) + coefficient * stride
    return Address(tuple((n, c) for n, c in terms.items() if c), constant)
