"""A nest as the scheduler sees it: the nest and its reductions, with their accesses and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.loops import (
    POSITION,
    IndexOp,
    LoadOp,
    NestOp,
    ReduceOp,
    StoreOp,
    YieldOp,
    address_of,
    element_type,
    scope_sizes,
)
from ocannl.dialects.schedule import Schedule

# Instructions that a function of `math` becomes, roughly.
FUNCTION_COST = 15
DIVISION_COST = 6
SIMPLE_FUNCTIONS = (math_dialect.AbsFOp, math_dialect.FmaOp, math_dialect.CopySignOp)
DIVISIONS = (arith.DivfOp, math_dialect.SqrtOp)


@dataclass(slots=True)
class Access:
    """A load or store, with its strides in elements along the loops.

    Along `scattered` loops a position that is found at run time moves, as if by one each step.
    """

    op: LoadOp | StoreOp
    strides: dict[str, int]
    bytes: int
    scattered: frozenset[str]


@dataclass(slots=True)
class Scope:
    """The nest, or one of its reductions: `space` are its own loops, `around` those outside of it.

    `work` is its arithmetic at a point, in instructions. `varies` are the loops around it that its value
    depends on.
    """

    op: NestOp | ReduceOp
    space: dict[str, int]
    around: dict[str, int]
    accesses: list[Access] = field(default_factory=list[Access])
    work: int = 0
    inner: list[Scope] = field(default_factory=list["Scope"])
    varies: set[str] = field(default_factory=set[str])

    def walk(self) -> Iterator[Scope]:
        yield self
        for scope in self.inner:
            yield from scope.walk()

    @property
    def points(self) -> int:
        """How often the body of a reduction runs, in the whole nest."""
        runs = math.prod(size for name, size in self.around.items() if name in self.varies)
        return runs * math.prod(self.space.values())


def nest_facts(nest: NestOp, merged: Sequence[tuple[str, ...]] = ()) -> Scope:
    """Reads off a nest what scheduling it needs, over loops that merge groups of its variables."""
    schedule = Schedule(merged=tuple(merged))
    facts = Scope(nest, schedule.loops(nest.space.data), scope_sizes(nest))
    _read(facts, nest.body.block, {}, schedule)
    return facts


def _read(scope: Scope, block: Block, depends: dict[SSAValue, set[str]], schedule: Schedule) -> None:
    """Fills a scope; `depends` has the loops that each value depends on."""
    for op in block.ops:
        names = set[str]().union(*(depends[operand] for operand in op.operands if operand in depends))
        match op:
            case LoadOp() | StoreOp():
                access = read_access(op, depends, schedule)
                scope.accesses.append(access)
                names |= access.strides.keys()
            case IndexOp():
                names.update(name for name, _ in address_of(op).merge(schedule.merged).terms)
            case ReduceOp():
                inner = Scope(op, schedule.loops(op.space.data), scope.around | scope.space)
                _read(inner, op.body.block, depends, schedule)
                # A product that is summed is part of the addition.
                inner.work += not isinstance(op.yielded.owner, arith.MulfOp)
                scope.inner.append(inner)
                names |= inner.varies
            case arith.ConstantOp() | YieldOp():
                pass
            case _:
                scope.work += instructions(op)
        depends.update((result, names) for result in op.results)
        scope.varies |= names
    scope.varies &= scope.around.keys()


def read_access(op: LoadOp | StoreOp, depends: Mapping[SSAValue, set[str]], schedule: Schedule) -> Access:
    strides = dict(address_of(op).merge(schedule.merged).terms)
    scattered: set[str] = set()
    for k, position in enumerate(op.positions):
        stride = strides.pop(f"{POSITION}{k}", 0)
        scattered |= depends[position]
        for name in sorted(depends[position]):
            strides[name] = strides.get(name, 0) + stride
    return Access(op, strides, element_bytes(op), frozenset(scattered))


def element_bytes(op: LoadOp | StoreOp) -> int:
    type = element_type(op.node)
    assert isinstance(type, FixedBitwidthType)
    return type.size


def instructions(op: Operation) -> int:
    if isinstance(op, DIVISIONS):
        return DIVISION_COST
    if op.name.startswith("math.") and not isinstance(op, SIMPLE_FUNCTIONS):
        return FUNCTION_COST
    return 1
