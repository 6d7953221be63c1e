"""Values and operations in the user's notation, for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    DataOp,
    EmbedOp,
    GradOp,
    MemoryOp,
    RangeOp,
    SizeOp,
    SliceOp,
    ValueOp,
)
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, JvpOp, VjpOp
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.dialects.texpr.slices import users_positions
from ocannl.dialects.texpr.uniform import UniformOp

# The characters of an operation as messages show it whole.
MOST_SHOWN = 60

# The functions of all axes of a tensor by their accumulation.
TOTALS = {"add": "sum", "max": "max", "min": "min"}


def shortened(text: str) -> str:
    """The text of an operation, of which a long spec is left out: it stands at the user's line."""
    return re.sub(r'"[^"]*"', "...", text) if len(text) > MOST_SHOWN else text


def tensor_name(value: SSAValue) -> str:
    """The name that a user would give to a value."""
    match value.owner:
        case MemoryOp() as op:
            return op.label.data
        case GradOp() as op:
            return f"{tensor_name(op.source)}.grad"
        case ValueOp() as op:
            return f"{tensor_name(op.source)}.value"
        case ConstantOp() as op:
            return f"{op.value:g}"
        case EmbedOp() as op:
            return str(op.index)
        case SizeOp() as op:
            return f"size {op.dim}"
        case SliceOp() as op:
            return f"{tensor_name(op.source)}[{users_positions(op.positions.data)}]"
        case RangeOp():
            return "range"
        case VjpOp() | JvpOp() | AdjointOp() as op:
            return describe(op)
        case CustomOp() as op:
            return tensor_name(op.source) if value.name_hint is None else value.name_hint
        case ApplyOp() as op:
            return f"({_describe_apply(op, _short_name)})" if value.name_hint is None else value.name_hint
        case ScanOp() | ResultOp() | ArgumentOp() as op:
            return value.name_hint or describe(op)
        case Block():
            return value.name_hint or "a tensor"
        case UniformOp():
            return value.name_hint or "uniform"
        case _:
            return "a tensor"


def _short_name(value: SSAValue) -> str:
    """The name of an operand of an operand; empty for an expression without one."""
    return "..." if isinstance(value.owner, ApplyOp) and value.name_hint is None else tensor_name(value)


def describe(op: Operation) -> str:
    """An operation in the user's notation."""
    match op:
        case ApplyOp():
            return _describe_apply(op, tensor_name)
        case SliceOp():
            return f"{tensor_name(op.source)}[{users_positions(op.positions.data)}]"
        case VjpOp():
            return f"vjp({tensor_name(op.tensor)}, {tensor_name(op.wrt)})"
        case JvpOp():
            return f"jvp({tensor_name(op.tensor)}, {', '.join(map(tensor_name, op.wrt))})"
        case AdjointOp():
            return f"the cotangent of {tensor_name(op.source)}"
        case CustomOp():
            return f"custom gradient of {tensor_name(op.source)}"
        case AssignOp():
            at = "" if op.at is None else f"[{users_positions(op.at.data)}]"
            return f"{tensor_name(op.target)}{at} {op.accum_name or ''}= {tensor_name(op.value)}"
        case ScanOp():
            return op.kind
        case ResultOp() if isinstance(op.scan.owner, ScanOp):
            return op.scan.owner.kind
        case ResultOp() | ArgumentOp():
            return "scan"
        case DataOp():
            return f"flat data {op.label.data}"
        case _:
            return op.name.removeprefix("texpr.")


def chooses_positions(op: ApplyOp) -> bool:
    """Recognises a gather or scatter: pairs of ids and of the range that they are compared with, then the
    chosen values.
    """
    term, count = op.term.data, len(op.args)
    if not isinstance(term, App) or term.op != "where" or count < 3 or count % 2 == 0:
        return False
    return all(isinstance(arg.owner, RangeOp) for arg in op.args[1::2])


def _describe_apply(op: ApplyOp, name_of: Callable[[SSAValue], str]) -> str:
    names = [name_of(a) for a in op.args]
    logic = "" if op.logic is None else op.logic.data
    term = op.term.data
    if logic == "@":
        return f"{names[0]} @ {names[1]}"
    if logic == "T":
        return f"{names[0]}.T"
    if logic != "." and chooses_positions(op):
        operands, result = logic.split("=>")
        *pairs, own = operands.split(";")
        name = "scatter" if pairs[1].strip() in result else "gather"
        slots = "; ".join(slot.strip() for slot in (own, *pairs[::2]))
        return f'{name}("{slots} =>{result}", {", ".join([names[-1], *names[:-1:2]])})'
    if op.accum_name in TOTALS and len(names) == 1 and logic.partition("=>")[2].split() == ["|", "->"]:
        (what,) = names
        return f"{TOTALS[op.accum_name]}{what if what.startswith('(') else f'({what})'}"
    if logic != ".":
        sums = isinstance(term, App) and term.op == "add"
        name = "concat" if sums and "^" in logic.partition("=>")[2] else "einsum"
        return f'{name}("{logic}", {", ".join(names)})'
    if isinstance(term, App):
        parts = [_part_name(part, names) for part in term.args]
        symbol = SCALAR_OPS[term.op].symbol
        if symbol and len(parts) == 2:
            return f"{parts[0]} {symbol} {parts[1]}"
        return f"{term.op}({', '.join(parts)})"
    return names[0]


def _part_name(part: Term, names: Sequence[str]) -> str:
    match part:
        case Arg(index):
            return names[index]
        case Const(value):
            return f"{value:g}"
        case App(op):
            return f"{op}(...)"
