"""Sums of the products of four neighbouring integers of 8 bits, which vectors add up by words of 32 bits."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import LoadOp, ReduceOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass

# The numbers in a word.
DEPTH = 4
# The instructions that add up the products of a word, and those of what is computed of bytes before.
WORK = 2


@dataclass(frozen=True, slots=True)
class WordFactor:
    """A factor of a product: bytes that are loaded, with a sign, and raised to a least number, or without
    one, and then shifted to the right or masked: they stay bytes.

    Attributes:
        load: the load.
        signed: whether it widens them with their sign.
        steps: what is computed of them, in order: an operation and a constant.
    """

    load: LoadOp
    signed: bool
    steps: tuple[tuple[type[Operation], int], ...]

    @property
    def greatest(self) -> int:
        """The greatest number that it can be."""
        most = 127 if self.signed else 255
        for step, number in self.steps:
            if step is not arith.MaxSIOp:
                most = min(most, number) if step is arith.AndIOp else most >> number
        return most

    @property
    def has_opposites(self) -> bool:
        """Whether it has a sign, and is never the byte whose opposite is none."""
        return self.signed and bool(self.steps)


@dataclass(frozen=True, slots=True)
class WordProduct:
    """A sum over four neighbours of both factors."""

    variable: str
    factors: tuple[WordFactor, WordFactor]


def word_product(reduction: ReduceOp) -> WordProduct | None:
    """The products of four neighbours of bytes that a reduction adds up, if it does."""
    product, space = reduction.yielded.owner, reduction.space.data
    if reduction.accum.data != "add" or reduction.result.type != i32 or len(space) != 1:
        return None
    ((variable, size),) = space
    if size != DEPTH or not isinstance(product, arith.MuliOp):
        return None
    factors = [word_factor(operand) for operand in product.operands]
    left, right = factors
    if left is None or right is None or left.load is right.load:
        return None
    loads = left.load, right.load
    if any(load.positions or address_of(load).stride(variable) != 1 for load in loads):
        return None
    return WordProduct(variable, (left, right))


def byte_scale(reduction: ReduceOp) -> LoadOp | None:
    """The byte that is all that a reduction's result is multiplied with, as one of 32 bits."""
    users = [use.operation for use in reduction.result.uses]
    if len(users) != 1 or not isinstance(users[0], arith.MuliOp):
        return None
    others = [operand for operand in users[0].operands if operand is not reduction.result]
    factor = word_factor(others[0]) if len(others) == 1 else None
    return None if factor is None or factor.steps else factor.load


def word_factor(value: SSAValue) -> WordFactor | None:
    """A factor of 32 bits as one of bytes."""
    op = value.owner
    if isinstance(op, arith.ExtSIOp | arith.ExtUIOp):
        load = op.input.owner
        if op.input.type != i8 or not isinstance(load, LoadOp):
            return None
        return WordFactor(load, isinstance(op, arith.ExtSIOp), ())
    if not isinstance(op, arith.AndIOp | arith.ShRSIOp | arith.ShRUIOp | arith.MaxSIOp):
        return None
    inner, number = word_factor(op.operands[0]), constant(op.operands[1])
    if inner is None or number is None or inner.signed is not isinstance(op, arith.MaxSIOp):
        return None
    least, most = (-127, 0) if inner.signed else (0, 255 if isinstance(op, arith.AndIOp) else 7)
    if not least <= number <= most:
        return None
    return WordFactor(inner.load, inner.signed, (*inner.steps, (type(op), number)))


def constant(value: SSAValue) -> int | None:
    """The integer that a value is, if it is always the same."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def in_words(strides: Mapping[str, int], variable: str) -> dict[str, int] | None:
    """Strides in elements as strides in words, without that along a word; None if they are not."""
    others = {name: stride for name, stride in strides.items() if name != variable}
    if any(stride % DEPTH for stride in others.values()):
        return None
    return {name: stride // DEPTH for name, stride in others.items()}
