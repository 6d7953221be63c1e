"""One-hot recognition: values that differ from a neutral one only where a variable equals an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ocannl.dialects.loops import IndexOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.precisions import is_float
from ocannl.passes.analysis.nests import Indexed, names_in, with_reduced
from ocannl.passes.analysis.patterns.constants import TRUE, integer, number
from ocannl.passes.analysis.values.slices import backward_slice

# Integers up to these are exact as floats, so that positions below them compare as integers do.
EXACT: dict[type[Attribute], int] = {Float32Type: 2**24, Float64Type: 2**53}

# Accumulations of which a single value is the result: others, such as `or`, change it.
CHOOSING = ("add", "mul", "max", "min")


@dataclass(frozen=True, slots=True)
class OneHot:
    """A comparison `variable == id`, where the variable runs over `range(size)`."""

    comparison: arith.CmpfOp | arith.CmpiOp
    variable: str
    size: int
    id: SSAValue


def one_hots(ops: Iterable[Operation], sizes: Mapping[str, int]) -> Iterator[OneHot]:
    """The comparisons among `ops` of a variable in `sizes` with a number that does not depend on it."""
    for op in ops:
        if not isinstance(op, arith.CmpfOp | arith.CmpiOp) or relation(op) not in ("oeq", "eq"):
            continue
        for index, id in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            variable = index.owner.index.variable if isinstance(index.owner, IndexOp) else None
            size = 0 if variable is None else sizes.get(variable, 0)
            if variable is not None and 0 < size <= exact(index) and variable not in variables_of(id):
                yield OneHot(op, variable, size, id)


def chosen(reduce: ReduceOp) -> Iterator[OneHot]:
    """The comparisons of variables of a reduction that say at which of their values it accumulates anything:
    the others contribute the neutral element.
    """
    accum = reduce.accum.data
    if accum not in CHOOSING:
        return
    neutral = neutral_number(accum, reduce.result.type)
    for one_hot in one_hots(reduce.body.block.ops, dict(reduce.space.data)):
        if NeutralElsewhere(one_hot.comparison, neutral).holds(reduce.yielded):
            yield one_hot


def placing(reduce: ReduceOp, space: Mapping[str, int]) -> Iterator[OneHot]:
    """For each variable around a reduction, of the sizes in `space`, one comparison with an id that varies in
    the reduction, where that says to which of the cells along it a point contributes anything: a scatter.
    """
    neutral = neutral_number(reduce.accum.data, reduce.result.type)
    found: set[str] = set()
    for one_hot in one_hots(reduce.body.block.ops, space):
        id_varies_with = variables_of(one_hot.id)
        if id_varies_with.isdisjoint(reduce.space.names) or not found.isdisjoint(
            {one_hot.variable, *id_varies_with}
        ):
            continue
        if NeutralElsewhere(one_hot.comparison, neutral).holds(reduce.yielded):
            found.add(one_hot.variable)
            yield one_hot


def exact(value: SSAValue) -> int:
    """The integers up to which a type represents all exactly."""
    return EXACT[value.type.__class__] if is_float(value.type) else 2**31


def relation(op: arith.CmpfOp | arith.CmpiOp) -> str:
    """The predicate of a comparison by name."""
    names = CMPF_COMPARISON_OPERATIONS if isinstance(op, arith.CmpfOp) else CMPI_COMPARISON_OPERATIONS
    return names[op.predicate.value.data]


def variables_of(value: SSAValue) -> set[str]:
    """The iteration variables and static indices that a value depends on."""
    names: set[str] = set()
    for op in backward_slice([value]):
        for inner in with_reduced((op,)):
            if isinstance(inner, Indexed):
                names |= names_in(inner.indices.data)
    return names


@dataclass(frozen=True, slots=True)
class NeutralElsewhere:
    """Recognises values that are `neutral` wherever a comparison does not hold.

    Products with 0 count as 0, although the other factor may be infinite or NaN.
    """

    comparison: arith.CmpfOp | arith.CmpiOp
    neutral: float

    def holds(self, value: SSAValue) -> bool:
        """Whether a value is neutral wherever the comparison does not hold."""
        if self.neutral in (number(value), integer(value)):
            return True
        op = value.owner
        match op:
            case arith.SelectOp():
                return self.holds(op.rhs) and (self.implied(op.cond) or self.holds(op.lhs))
            case arith.ExtFOp() | arith.TruncFOp() | arith.ExtSIOp():
                return self.holds(op.operands[0])
            case _:
                return self.neutral == 0 and self._is_zero(op)

    def _is_zero(self, op: Operation | Block) -> bool:
        match op:
            case arith.UIToFPOp() | arith.ExtUIOp():
                (source,) = op.operands
                return self.implied(source) if source.type == TRUE.type else self.holds(source)
            case arith.SIToFPOp() | arith.TruncIOp():
                return self.holds(op.operands[0])
            case arith.MulfOp() | arith.MuliOp():
                return any(self.holds(operand) for operand in op.operands)
            case arith.AddfOp() | arith.SubfOp() | arith.AddiOp() | arith.SubiOp():
                return all(self.holds(operand) for operand in op.operands)
            case math_dialect.FmaOp():
                return self.holds(op.c) and (self.holds(op.a) or self.holds(op.b))
            case arith.NegfOp() | arith.DivfOp():
                return self.holds(op.operands[0])
            case ReduceOp():
                return op.accum.data == "add" and self.holds(op.yielded)
            case _:
                return False

    def implied(self, condition: SSAValue) -> bool:
        """Whether a condition holds only where the comparison does."""
        op = condition.owner
        match op:
            case arith.AndIOp():
                return any(self.implied(operand) for operand in op.operands)
            case arith.CmpfOp() if op is not self.comparison:
                predicate = relation(op)
                is_truth = predicate in ("une", "one", "ogt") and number(op.rhs) == 0
                return is_truth and NeutralElsewhere(self.comparison, 0.0).holds(op.lhs)
            case arith.CmpiOp() if op is not self.comparison:
                is_truth = relation(op) == "ne" and integer(op.rhs) == 0
                return is_truth and NeutralElsewhere(self.comparison, 0).holds(op.lhs)
            case _:
                return op is self.comparison
