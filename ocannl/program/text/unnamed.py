"""Expressions that have no name of their own: a routine numbers them, and texts say what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr import ApplyOp
from ocannl.passes.texpr.infer_shapes.descriptions import describe, shortened, tensor_name
from ocannl.program.values import Value, is_memory, operation_of

# What accumulations of one operand are called.
_REDUCTIONS = {"add": "sum", "mul": "product", "max": "maximum", "min": "minimum"}
# Sizes are known by numbers while a program is built.
_SIZE = re.compile(r"size \?\w+")
# A gradient of an expression has its label, and this.
_GRADIENT = re.compile(r"(.+?)[._]grad\d*")


def expression_of(label: str, values: Mapping[str, Value]) -> str | None:
    """The expression of a node by its label, in the user's notation; None where it has a name, or where the
    compiler has made it. `values` are the values of the program, by label.
    """
    value = values.get(label)
    if value is None:
        match = _GRADIENT.fullmatch(label)
        source = None if match is None else expression_of(match[1], values)
        return None if source is None else f"gradient of {source}"
    op = operation_of(value)
    if is_memory(value) or op.result.name_hint:
        return None
    if isinstance(op, ApplyOp) and op.accum_name in _REDUCTIONS and isinstance(op.term.data, Arg):
        return f"{_REDUCTIONS[op.accum_name]} of {tensor_name(op.args[0])}"
    return shortened(_SIZE.sub("size", describe(op)))


def expressions_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The expressions of all values that have no name, and of their gradients, by label."""
    found = {label: expression_of(label, values) for label in values}
    own = {label: expression for label, expression in found.items() if expression is not None}
    return own | {f"{label}_grad": f"gradient of {expression}" for label, expression in own.items()}


def with_expressions(text: str, expressions: Mapping[str, str]) -> str:
    """A text in which nodes without names, such as `n4`, have their expressions behind them."""

    def told(match: re.Match[str]) -> str:
        expression = expressions.get(match[1])
        return match[0] if expression is None else f"{match[0]} ({expression})"

    return re.sub(r"`([^`]+)`", told, text)
