"""Operators of C and of the languages that follow it: scalar operations as expressions of them.

A template is in terms of the operands {0}, {1}, {2}, each a name, a literal or in parentheses, and of casts:
{type}(x) is x in the type of the result, {bits}(x) in the unsigned type of the result, and {from_bits}(x) in
that of the first operand. Only unsigned numbers may overflow.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.passes.loops.expand_math import way_without

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
    arith.SelectOp: "{0} ? {1} : {2}",
    arith.ExtSIOp: "{type}({0})",
    arith.ExtUIOp: "{type}({from_bits}({0}))",
    arith.TruncIOp: "{type}({0})",
    arith.SIToFPOp: "{type}({0})",
    arith.UIToFPOp: "{type}({from_bits}({0}))",
    arith.FPToSIOp: "{type}({0})",
    arith.FPToUIOp: "{type}({bits}({0}))",
}

_OPERANDS: dict[type[Operation], int] = {math.Atan2Op: 2, math.CopySignOp: 2, math.FmaOp: 3, math.PowFOp: 2}


def _calls(names: Mapping[type[Operation], str]) -> dict[type[Operation], str]:
    """Templates of calls of functions, in which {f} stands for what their names end in by the type."""
    operands = {kind: ", ".join([f"{{{k}}}" for k in range(_OPERANDS.get(kind, 1))]) for kind in names}
    return {kind: f"{name}{{f}}({operands[kind]})" for kind, name in names.items()}


EXACT = _calls(
    {
        math.AbsFOp: "fabs",
        math.CeilOp: "ceil",
        math.CopySignOp: "copysign",
        math.FloorOp: "floor",
        math.FmaOp: "fma",
        math.RoundEvenOp: "rint",
        math.RoundOp: "round",
        math.TruncOp: "trunc",
    }
)
"""Calls of functions of C that round once or not at all."""

ELEMENTARY = _calls(
    {
        math.AcosOp: "acos",
        math.AcoshOp: "acosh",
        math.AsinOp: "asin",
        math.AsinhOp: "asinh",
        math.Atan2Op: "atan2",
        math.AtanOp: "atan",
        math.AtanhOp: "atanh",
        math.CosOp: "cos",
        math.CoshOp: "cosh",
        math.Exp2Op: "exp2",
        math.ExpOp: "exp",
        math.Log10Op: "log10",
        math.Log2Op: "log2",
        math.LogOp: "log",
        math.PowFOp: "pow",
        math.SinOp: "sin",
        math.SinhOp: "sinh",
        math.SqrtOp: "sqrt",
        math.TanOp: "tan",
        math.TanhOp: "tanh",
    }
)
"""Calls of further functions of C."""

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


def template(op: Operation, own: Mapping[type[Operation], str], language: str) -> str:
    """The template of an operation, by the `own` ones of a language or those of all.

    Raises `OcannlError` for an operation that the language lacks.
    """
    kind = type(op)
    if isinstance(op, arith.CmpfOp):
        return FLOAT_COMPARISONS[CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]]
    if isinstance(op, arith.CmpiOp):
        return _integer_comparison(CMPI_COMPARISON_OPERATIONS[op.predicate.value.data])
    found = own.get(kind) or EXPRESSIONS.get(kind)
    if found is None or not op.operands:
        raise OcannlError(at_line(op, f"{language} has no `{op.name}`{way_without(op)}"))
    first: Attribute = op.operands[0].type
    if first == i1 and kind in OF_TRUTHS:
        return OF_TRUTHS[kind]
    if op.results[0].type == i1 and kind in TO_TRUTHS:
        return TO_TRUTHS[kind]
    return found


def _integer_comparison(predicate: str) -> str:
    sign = INTEGER_COMPARISONS[predicate[-2:]]
    if predicate.startswith("u"):
        return f"{{from_bits}}({{0}}) {sign} {{from_bits}}({{1}})"
    return f"{{0}} {sign} {{1}}"
