"""A nest as the scheduler sees it: loops, accesses with their strides, and arithmetic, for it and its
reductions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType
from xdsl.ir import Block, SSAValue

from ocannl.dialects.index.linear import POSITION
from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import operands_of, operations_of
from ocannl.dialects.loops import IndexOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.passes.analysis.costs.cost import CONVERSIONS, instructions
from ocannl.passes.analysis.nests import operations
from ocannl.passes.analysis.patterns.word_products import DEPTH, WORK, in_words, word_product


@dataclass(slots=True)
class Access:
    """A load or store, with its strides in elements along the loops.

    Attributes:
        scattered: the loops along which it is at a position found at run time; their stride is that of one
            step of the position.
        conversion: the instructions that widen the loaded value, or narrow the stored one.
    """

    op: LoadOp | StoreOp
    strides: dict[str, int]
    bytes: int
    scattered: frozenset[str]
    conversion: int


@dataclass(slots=True)
class ScopeFacts:
    """A nest or one of its reductions.

    Attributes:
        space: its own loops, with their sizes.
        around: the loops outside of it, with their sizes.
        work: its arithmetic at a point, in instructions.
        varies: the loops around it on which its value depends.
    """

    op: NestOp | ReduceOp
    space: dict[str, int]
    around: dict[str, int]
    accesses: list[Access] = field(default_factory=list[Access])
    work: int = 0
    inner: list[ScopeFacts] = field(default_factory=list["ScopeFacts"])
    varies: set[str] = field(default_factory=set[str])

    def walk(self) -> Iterator[ScopeFacts]:
        yield self
        for scope in self.inner:
            yield from scope.walk()

    @property
    def accumulators(self) -> int:
        """The accumulators of a lane: those of its sums, which stay while sums of integers inside them run,
        and of these. Sums of words need none. Where all are of floats, more rows are worth more than what is
        stored meanwhile.
        """
        sums = [scope for inner in self.inner for scope in inner.walk()]
        return len(sums) if any(map(_is_of_integers, sums)) else len(self.inner)

    @property
    def points(self) -> int:
        """How often the body of a reduction runs in the whole nest."""
        runs = math.prod(size for name, size in self.around.items() if name in self.varies)
        return runs * math.prod(self.space.values())


def _is_of_integers(scope: ScopeFacts) -> bool:
    return isinstance(scope.op, ReduceOp) and isinstance(scope.op.result.type, IntegerType)


def nest_facts(nest: NestOp, merged: Sequence[tuple[str, ...]] = ()) -> ScopeFacts:
    """The facts of a nest whose variables are merged into loops by the groups `merged`."""
    schedule = Schedule(merged=tuple(merged))
    facts = ScopeFacts(nest, schedule.loops(nest.space.data), scope_sizes(nest))
    _read(facts, nest.body.block, {}, schedule)
    return facts


def _read(scope: ScopeFacts, block: Block, depends: dict[SSAValue, set[str]], schedule: Schedule) -> None:
    """Fills a scope from its block; `depends` maps each value to the loops on which it depends."""
    for op in operations_of(block):
        names = set[str]().union(*[depends[operand] for operand in operands_of(op) if operand in depends])
        match op:
            case LoadOp() | StoreOp():
                access = read_access(op, depends, schedule)
                scope.accesses.append(access)
                names |= access.strides.keys()
            case IndexOp():
                names.update(name for name, _ in address_of(op).merge(schedule.merged).terms)
            case ReduceOp() if (words := words_of(op, depends, schedule)) is not None:
                scope.accesses += words
                scope.work += WORK
                names.update(*(access.strides for access in words))
            case ReduceOp():
                inner = ScopeFacts(op, schedule.loops(op.space.data), scope.around | scope.space)
                _read(inner, op.body.block, depends, schedule)
                # A product that is summed is part of the addition.
                inner.work += not isinstance(op.yielded.owner, arith.MulfOp)
                scope.inner.append(inner)
                names |= inner.varies
            case arith.ExtFOp() | arith.TruncFOp() if is_at_access(op):
                pass
            case _:
                scope.work += instructions(op)
        depends.update((result, names) for result in op.results)
        scope.varies |= names
    scope.varies &= scope.around.keys()


def words_of(op: ReduceOp, depends: Mapping[SSAValue, set[str]], schedule: Schedule) -> list[Access] | None:
    """The accesses of a sum of four neighbouring bytes, which reads words; None for another reduction."""
    product = word_product(op)
    if product is None:
        return None
    accesses = [read_access(factor.load, depends, schedule) for factor in product.factors]
    words = [in_words(access.strides, product.variable) for access in accesses]
    return (
        [
            Access(access.op, strides, DEPTH * access.bytes, access.scattered, access.conversion)
            for access, strides in zip(accesses, words, strict=True)
            if strides is not None
        ]
        if None not in words
        else None
    )


def read_access(op: LoadOp | StoreOp, depends: Mapping[SSAValue, set[str]], schedule: Schedule) -> Access:
    strides = dict(address_of(op).merge(schedule.merged).terms)
    scattered: set[str] = set()
    for k, position in enumerate(op.positions):
        stride = strides.pop(f"{POSITION}{k}", 0)
        scattered |= depends[position]
        for name in sorted(depends[position]):
            strides[name] = strides.get(name, 0) + stride
    return Access(op, strides, element_bytes(op.node), frozenset(scattered), conversion(op))


def conversion(op: LoadOp | StoreOp) -> int:
    widening, narrowing = CONVERSIONS.get(element_type(op.node).__class__, (0, 0))
    return widening if isinstance(op, LoadOp) else narrowing


def computed_bytes(nest: NestOp) -> int:
    """The bytes of the widest float that a nest computes with, of integers where there is none: small ones
    are widened in registers.
    """
    results = [result.type for op in operations(nest.body.block) for result in op.results]
    floats = [t.size for t in results if isinstance(t, Float32Type | Float64Type)]
    return max(floats or [t.size for t in results if isinstance(t, IntegerType)], default=0)


def is_at_access(op: arith.ExtFOp | arith.TruncFOp) -> bool:
    """Whether a conversion is costed with a load or store of a small float."""
    if isinstance(op, arith.ExtFOp):
        return small_format(op.input.type) is not None and isinstance(op.input.owner, LoadOp)
    users = [use.operation for use in op.result.uses]
    return small_format(op.result.type) is not None and all(isinstance(user, StoreOp) for user in users)
