"""The scalar operations of `arith` and `math` as expressions of the Metal Shading Language."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, Operation

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.lowering.kernels_to_metal.small_floats import STORED_AS_BITS, narrowing, widening
from ocannl.lowering.kernels_to_metal.types import metal_type, unsigned

# In terms of the operands {0}, {1}, {2} and the type of the result {type}; {bits} is the unsigned type of the
# result, {from_bits} that of the first operand. In C++ only unsigned numbers may overflow.
EXPRESSIONS: dict[type[Operation], str] = {
    arith.AddfOp: "{0} + {1}",
    arith.SubfOp: "{0} - {1}",
    arith.MulfOp: "{0} * {1}",
    arith.DivfOp: "{0} / {1}",
    arith.NegfOp: "-{0}",
    arith.AddiOp: "{type}({bits}({0}) + {bits}({1}))",
    arith.SubiOp: "{type}({bits}({0}) - {bits}({1}))",
    arith.MuliOp: "{type}({bits}({0}) * {bits}({1}))",
    arith.DivSIOp: "{0} / {1}",
    arith.DivUIOp: "{type}({bits}({0}) / {bits}({1}))",
    arith.RemSIOp: "{0} % {1}",
    arith.RemUIOp: "{type}({bits}({0}) % {bits}({1}))",
    arith.AndIOp: "{0} & {1}",
    arith.OrIOp: "{0} | {1}",
    arith.XOrIOp: "{0} ^ {1}",
    arith.ShLIOp: "{type}({bits}({0}) << {bits}({1}))",
    arith.ShRUIOp: "{type}({bits}({0}) >> {bits}({1}))",
    arith.ShRSIOp: "{0} >> {1}",
    arith.MaxSIOp: "max({0}, {1})",
    arith.MinSIOp: "min({0}, {1})",
    arith.MaxUIOp: "{type}(max({bits}({0}), {bits}({1})))",
    arith.MinUIOp: "{type}(min({bits}({0}), {bits}({1})))",
    arith.MaximumfOp: "max_nan({0}, {1})",
    arith.MinimumfOp: "min_nan({0}, {1})",
    arith.MaxnumfOp: "fmax({0}, {1})",
    arith.MinnumfOp: "fmin({0}, {1})",
    arith.SelectOp: "{0} ? {1} : {2}",
    arith.BitcastOp: "as_type<{type}>({0})",
    arith.ExtSIOp: "{type}({0})",
    arith.ExtUIOp: "{type}({from_bits}({0}))",
    arith.TruncIOp: "{type}({0})",
    arith.SIToFPOp: "{type}({0})",
    arith.UIToFPOp: "{type}({from_bits}({0}))",
    arith.FPToSIOp: "{type}({0})",
    arith.FPToUIOp: "{type}({bits}({0}))",
    math.AbsFOp: "fabs({0})",
    math.CeilOp: "ceil({0})",
    math.CopySignOp: "copysign({0}, {1})",
    math.FloorOp: "floor({0})",
    math.FmaOp: "fma({0}, {1}, {2})",
    math.RoundEvenOp: "rint({0})",
    math.RoundOp: "round({0})",
    math.SqrtOp: "precise::sqrt({0})",
    math.TruncOp: "trunc({0})",
    **{
        kind: f"precise::{name}({{0}})"
        for kind, name in (
            (math.AcosOp, "acos"),
            (math.AcoshOp, "acosh"),
            (math.AsinOp, "asin"),
            (math.AsinhOp, "asinh"),
            (math.AtanOp, "atan"),
            (math.AtanhOp, "atanh"),
            (math.CosOp, "cos"),
            (math.CoshOp, "cosh"),
            (math.Exp2Op, "exp2"),
            (math.ExpOp, "exp"),
            (math.Log10Op, "log10"),
            (math.Log2Op, "log2"),
            (math.LogOp, "log"),
            (math.SinOp, "sin"),
            (math.SinhOp, "sinh"),
            (math.TanOp, "tan"),
            (math.TanhOp, "tanh"),
        )
    },
    math.Atan2Op: "precise::atan2({0}, {1})",
    math.PowFOp: "precise::pow({0}, {1})",
}

# A number of one bit is -1 or 0 where it has a sign.
OF_TRUTHS: dict[type[Operation], str] = {arith.ExtSIOp: "-{type}({0})", arith.SIToFPOp: "-{type}({0})"}
TO_TRUTHS: dict[type[Operation], str] = {arith.TruncIOp: "({0} & 1) != 0"}

FLOAT_COMPARISONS = {
    "false": "false",
    "oeq": "{0} == {1}",
    "ogt": "{0} > {1}",
    "oge": "{0} >= {1}",
    "olt": "{0} < {1}",
    "ole": "{0} <= {1}",
    "one": "{0} < {1} || {0} > {1}",
    "ord": "{0} == {0} && {1} == {1}",
    "ueq": "!({0} < {1} || {0} > {1})",
    "ugt": "!({0} <= {1})",
    "uge": "!({0} < {1})",
    "ult": "!({0} >= {1})",
    "ule": "!({0} > {1})",
    "une": "{0} != {1}",
    "uno": "{0} != {0} || {1} != {1}",
    "true": "true",
}
INTEGER_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# Operands are evaluated once each, in all threads: one of them may be a value of another thread.
ACCUMULATIONS = {
    "add": "{0} + {1}",
    "mul": "{0} * {1}",
    "max": "max_nan({0}, {1})",
    "min": "min_nan({0}, {1})",
    "or": "{type}(({0} != 0) | ({1} != 0))",
    "and": "{type}(({0} != 0) & ({1} != 0))",
}


def expression(op: Operation, operands: Sequence[str]) -> str:
    """The value of an operation on operands that are names or literals.

    Raises `OcannlError` for an operation that Metal lacks, `NotInMetal` for a type.
    """
    if not op.operands:
        raise OcannlError(at_line(op, f"Metal has no `{op.name}`"))
    first, result = op.operands[0].type, op.results[0].type
    return _template(op, first, result).format(
        *operands, type=metal_type(result), bits=unsigned(result), from_bits=unsigned(first)
    )


# Truth values are accumulated as 0 and 1.
INTEGER_ACCUMULATIONS = {
    "add": EXPRESSIONS[arith.AddiOp],
    "mul": EXPRESSIONS[arith.MuliOp],
    "max": EXPRESSIONS[arith.MaxSIOp],
    "min": EXPRESSIONS[arith.MinSIOp],
    "or": EXPRESSIONS[arith.OrIOp],
    "and": EXPRESSIONS[arith.AndIOp],
}


def accumulation(accum: str, type: Attribute, value: str, other: str) -> str:
    """One step of an accumulation."""
    steps = INTEGER_ACCUMULATIONS if is_integer(type) else ACCUMULATIONS
    return steps[accum].format(value, other, type=metal_type(type), bits=unsigned(type))


def shuffled(type: Attribute, value: str, mask: int) -> str:
    """The value of the thread whose number differs in the bits of a mask. Numbers of 64 bits go in two."""
    if type == i64:
        return f"as_type<long>(simd_shuffle_xor(as_type<int2>({value}), {mask}))"
    return f"simd_shuffle_xor({value}, {mask})"


def _template(op: Operation, first: Attribute, result: Attribute) -> str:
    kind = type(op)
    if isinstance(op, arith.CmpfOp):
        return FLOAT_COMPARISONS[CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]]
    if isinstance(op, arith.CmpiOp):
        return _integer_comparison(CMPI_COMPARISON_OPERATIONS[op.predicate.value.data])
    if isinstance(op, arith.ExtFOp | arith.TruncFOp):
        function = converting(first, result)
        return "{type}({0})" if function is None else f"{function}({{0}})"
    if first == i1 and kind in OF_TRUTHS:
        return OF_TRUTHS[kind]
    if result == i1 and kind in TO_TRUTHS:
        return TO_TRUTHS[kind]
    if kind not in EXPRESSIONS:
        raise OcannlError(at_line(op, f"Metal has no `{op.name}`"))
    return EXPRESSIONS[kind]


def converting(source: Attribute, target: Attribute) -> str | None:
    """The name of the function of ours that converts floats, where some are stored as bits."""
    narrow, wide = small_format(target), small_format(source)
    if narrow is not None and narrow.name in STORED_AS_BITS:
        return narrowing(narrow)
    if wide is not None and wide.name in STORED_AS_BITS:
        return widening(wide)
    return None


def _integer_comparison(predicate: str) -> str:
    sign = INTEGER_COMPARISONS[predicate[-2:]]
    if predicate.startswith("u"):
        return f"{{from_bits}}({{0}}) {sign} {{from_bits}}({{1}})"
    return f"{{0}} {sign} {{1}}"
