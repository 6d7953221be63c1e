"""The scalar operations of `arith`, `math` and `loops` as expressions of C."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, Operation

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.loops import UniformOp
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.dialects.scalar.remainder_op import RemainderOp
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.dialects.scalar.threefry import key_words
from ocannl.lowering.c_family.operators import ELEMENTARY, EXACT, EXPRESSIONS, template
from ocannl.lowering.c_family.word_functions import narrowing, widening
from ocannl.lowering.loops_to_c.functions import bits_of, float_of
from ocannl.lowering.loops_to_c.types import c_type, suffix, unsigned

FUNCTIONS: dict[type[Operation], str] = {
    arith.MaxSIOp: "{0} > {1} ? {0} : {1}",
    arith.MinSIOp: "{0} < {1} ? {0} : {1}",
    arith.MaxUIOp: "{bits}({0}) > {bits}({1}) ? {0} : {1}",
    arith.MinUIOp: "{bits}({0}) < {bits}({1}) ? {0} : {1}",
    arith.MaximumfOp: "max_nan{f}({0}, {1})",
    arith.MinimumfOp: "min_nan{f}({0}, {1})",
    arith.MaxnumfOp: "fmax{f}({0}, {1})",
    arith.MinnumfOp: "fmin{f}({0}, {1})",
    arith.ExtFOp: "{type}({0})",
    arith.TruncFOp: "{type}({0})",
    arith.BitcastOp: "{0}",
    math.ErfOp: "erf{f}({0})",
    math.ExpM1Op: "expm1{f}({0})",
    math.Log1pOp: "log1p{f}({0})",
    RemainderOp: "fmod{f}({0}, {1})",
    **EXACT,
    **ELEMENTARY,
}

# Templates that need no parentheses.
CALL = re.compile(r"\w+(\{f\})?\((\{\d\}(, )?)*\)")

# A sum and the next number; truth values are accumulated as 0 and 1.
ACCUMULATIONS = {
    "add": "{0} += {1}",
    "mul": "{0} *= {1}",
    "max": "{0} = max_nan{f}({0}, {1})",
    "min": "{0} = min_nan{f}({0}, {1})",
    "or": "{0} = {0} != 0 || {1} != 0",
    "and": "{0} = {0} != 0 && {1} != 0",
}
# Those whose operand needs no parentheses; an extreme of integers is a condition.
BARE, BARE_INTEGERS = ("add", "mul", "max", "min"), ("add", "mul")
INTEGER_ACCUMULATIONS = {
    "add": f"{{0}} = {EXPRESSIONS[arith.AddiOp]}",
    "mul": f"{{0}} = {EXPRESSIONS[arith.MuliOp]}",
    "max": f"{{0}} = {FUNCTIONS[arith.MaxSIOp]}",
    "min": f"{{0}} = {FUNCTIONS[arith.MinSIOp]}",
    "or": "{0} |= {1}",
    "and": "{0} &= {1}",
}


def expression(op: Operation, operands: Sequence[str]) -> str:
    """The value of an operation on operands that are names, calls, literals or in parentheses; as such.

    Raises `OcannlError` for an operation that C lacks.
    """
    if isinstance(op, FarOp):
        hint = "leave out expand-math, as the pipeline `c` does"
        raise OcannlError(at_line(op, f"C has no `{op.name}`: {hint}"))
    found = template(op, FUNCTIONS, "C")
    first, result = op.operands[0].type, op.results[0].type
    if isinstance(op, arith.ExtFOp | arith.TruncFOp):
        found = _resized(first, result)
    elif isinstance(op, arith.BitcastOp):
        found = f"{bits_of(first) if is_integer(result) else float_of(result)}({{0}})"
    is_call = CALL.fullmatch(found) is not None
    text = found.format(
        *(map(bare, operands) if is_call else operands),
        type=f"({c_type(result)})",
        bits=f"({unsigned(result)})",
        from_bits=f"({unsigned(first)})",
        f=suffix(result),
    )
    return text if is_call else f"({text})"


def bare(text: str) -> str:
    """The text of a value without parentheses around all of it."""
    return text[1:-1] if text[0] == "(" else text


def _resized(source: Attribute, target: Attribute) -> str:
    """The template of a float as one of another type."""
    wide, narrow = small_format(source), small_format(target)
    found = "{0}" if wide is None else f"{widening(wide)}({{0}})"
    if narrow is not None:
        rounded = f"round_to_odd({found})" if c_type(source) == "double" else found
        return f"{narrowing(narrow)}({rounded})"
    return f"{{type}}{found}" if c_type(target) == "double" or wide is None else found


def accumulation(accum: str, type: Attribute, total: str, value: str) -> str:
    """One step of an accumulation, as a statement without its semicolon."""
    steps, alone = (INTEGER_ACCUMULATIONS, BARE_INTEGERS) if is_integer(type) else (ACCUMULATIONS, BARE)
    casts = {"type": f"({c_type(type)})", "bits": f"({unsigned(type)})"}
    return steps[accum].format(total, bare(value) if accum in alone else value, f=suffix(type), **casts)


def uniform(op: UniformOp, place: str, counter: str) -> str:
    """A random number of a stream; the key is written out."""
    stream = op.stream.data
    key = ", ".join([f"0x{word:08X}u" for word in key_words(0, stream.key)])
    word, number = unsigned(op.place.type), int(stream.second)
    given = f"({word}){place}, {bare(counter)}, (uint32_t[]){{{key}}}, {number}"
    return f"uniform{suffix(op.result.type)}({given})"
