"""The error for reading a node that nobody has written."""

from __future__ import annotations

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import UninitializedError, location_text
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.values import Value, operation_of


def unwritten(routine: str, label: str, value: Value, is_gradient: bool) -> UninitializedError:
    """The error of a routine, with the user's line where the node belongs to an expression."""
    op = operation_of(value)
    where = location_text(op)
    what = f"`{label}`" if where is None else f"`{label}` (made at {where}),"
    if isinstance(op, texpr.ApplyOp | texpr.SliceOp):
        of = "gradient" if is_gradient else "value"
        what = f"the {of} of `{describe(op)}`, made at {where},"
    return UninitializedError(
        f"routine {routine!r} reads {what} which nobody has written{_advice(op, is_gradient)}"
    )


def _advice(op: object, is_gradient: bool) -> str:
    if is_gradient:
        return ": zero the gradients first, as train.grad_update does"
    if isinstance(op, texpr.ParamOp):
        return ": initialize parameters by ctx.init_params(...), or set it by ctx[...] = array"
    if isinstance(op, texpr.MemoryOp):
        return ": set it by ctx[...] = array, or in code"
    return ": run a routine that computes it first"
