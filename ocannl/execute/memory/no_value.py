"""The error for memory without a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ocannl.dialects.ir.errors import UninitializedError, location_text
from ocannl.dialects.texpr import GradOp, MemoryOp, MergeOp, ParamOp
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.location import here
from ocannl.program.tensor import Tensor


class Holder(Protocol):
    """A context."""

    def __contains__(self, tensor: object) -> bool: ...


def no_value(tensor: Tensor, context: Holder) -> UninitializedError:
    """The error for a tensor whose memory nobody has written in a context."""
    where = location_text(tensor.op)
    what = f"`{tensor.label}`" if where is None else f"`{tensor.label}` (made at {where})"
    known = (
        in_other_contexts([tensor], context)
        or f": {advice(tensor.op, context, isinstance(tensor.op, GradOp))}"
    )
    return UninitializedError(here(f"{what} has no value yet{known}"))


def advice(op: object, context: object, is_gradient: bool = False) -> str:
    """How memory that an operation makes, or its gradient, gets a value in a context."""
    ctx = DEFAULT.name_of(context)
    if is_gradient:
        return "zero the gradients first, as train.grad_update does"
    if isinstance(op, ParamOp):
        all_of = f"{ctx}.init_params(t) gives values to the parameters of a tensor `t`"
        return f"{all_of}, and `{ctx}[p] = array` to one"
    if isinstance(op, MergeOp):
        return "in the context that is merged, run a routine that computes it, compiled after `.merge(ctx)`"
    if isinstance(op, MemoryOp):
        return f"`{ctx}[t] = array` sets it, or code does"
    return "run a routine that computes it first"


def in_other_contexts(tensors: Iterable[Tensor], context: Holder) -> str:
    """Which other context has values of tensors that have none in this one, for an error."""
    for other in sorted(DEFAULT.living, key=repr):
        for tensor in tensors:
            if other is not context and tensor in other and tensor not in context:
                way = f"`with ctx:` makes another context the default, which is {DEFAULT.get()} here"
                return f" in {context}, but `{tensor.label}` has a value in {other}; {way}"
    return ""
