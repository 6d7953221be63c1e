"""The values of the program under construction: their labels, and which of them are memory."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import App


def operation_of(value: SSAValue) -> texpr.TensorOp:
    """The operation that makes a value."""
    op = value.owner
    assert isinstance(op, texpr.TensorOp)
    return op


def label_of(value: SSAValue) -> str:
    """The name given by the user, or one made from the operation."""
    match operation_of(value):
        case texpr.MemoryOp() as memory:
            return memory.label.data
        case texpr.GradOp() as grad:
            return f"{label_of(grad.source)}.grad"
        case texpr.ValueOp() as kept:
            return f"{label_of(kept.source)}.value"
        case op:
            return value.name_hint or _operation_name(op)


def _operation_name(op: texpr.TensorOp) -> str:
    """The name of an unlabelled expression, by its operation."""
    if not isinstance(op, texpr.ApplyOp):
        return op.name.removeprefix("texpr.")
    if op.logic is not None and op.logic.data not in (".", "T"):
        return "product" if op.logic.data == "@" else "einsum"
    term = op.term.data
    return term.op if isinstance(term, App) else "transpose"


def is_memory(value: SSAValue) -> bool:
    """Parameters, data, nodes, gradients and values are memory; everything else is an expression."""
    return isinstance(value.owner, texpr.MemoryOp | texpr.OfOp)


def memory_key(value: SSAValue) -> tuple[SSAValue, bool]:
    """The value that owns the memory of a value, and whether the memory is its gradient."""
    op = value.owner
    if isinstance(op, texpr.OfOp):
        return op.source, isinstance(op, texpr.GradOp)
    return value, False
