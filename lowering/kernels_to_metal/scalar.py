"""The scalar operations of `arith` and `math` as expressions of the Metal Shading Language."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Operation

from ocannl.dialects.scalar.precisions import is_integer
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.lowering.c_family.operators import ELEMENTARY, EXACT, EXPRESSIONS, template
from ocannl.lowering.c_family.word_functions import narrowing, widening
from ocannl.lowering.kernels_to_metal.small_floats import STORED_AS_BITS
from ocannl.lowering.kernels_to_metal.types import metal_type, unsigned

# What Metal has beside the operators; see those for what the templates are in terms of.
FUNCTIONS: dict[type[Operation], str] = {
    arith.MaxSIOp: "max({0}, {1})",
    arith.MinSIOp: "min({0}, {1})",
    arith.MaxUIOp: "{type}(max({bits}({0}), {bits}({1})))",
    arith.MinUIOp: "{type}(min({bits}({0}), {bits}({1})))",
    arith.MaximumfOp: "max_nan({0}, {1})",
    arith.MinimumfOp: "min_nan({0}, {1})",
    arith.MaxnumfOp: "fmax({0}, {1})",
    arith.MinnumfOp: "fmin({0}, {1})",
    arith.BitcastOp: "as_type<{type}>({0})",
    arith.ExtFOp: "{type}({0})",
    arith.TruncFOp: "{type}({0})",
    **EXACT,
    **{kind: f"precise::{call}" for kind, call in ELEMENTARY.items()},
}

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
    found = template(op, FUNCTIONS, "Metal")
    first, result = op.operands[0].type, op.results[0].type
    if isinstance(op, arith.ExtFOp | arith.TruncFOp) and (function := converting(first, result)):
        found = f"{function}({{0}})"
    casts = {"type": metal_type(result), "bits": unsigned(result), "from_bits": unsigned(first)}
    return found.format(*operands, f="", **casts)


# Truth values are accumulated as 0 and 1.
INTEGER_ACCUMULATIONS = {
    "add": EXPRESSIONS[arith.AddiOp],
    "mul": EXPRESSIONS[arith.MuliOp],
    "max": FUNCTIONS[arith.MaxSIOp],
    "min": FUNCTIONS[arith.MinSIOp],
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


def converting(source: Attribute, target: Attribute) -> str | None:
    """The name of the function of ours that converts floats, where some are stored as bits."""
    narrow, wide = small_format(target), small_format(source)
    if narrow is not None and narrow.name in STORED_AS_BITS:
        return narrowing(narrow)
    if wide is not None and wide.name in STORED_AS_BITS:
        return widening(wide)
    return None
