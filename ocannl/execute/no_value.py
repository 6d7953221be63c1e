"""The error for memory without a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ocannl.dialects.ir.errors import UninitializedError, location_text
from ocannl.program.default_context import DEFAULT
from ocannl.program.tensor import Tensor


class Holder(Protocol):
    """A context."""

    def __contains__(self, tensor: object) -> bool: ...


def no_value(tensor: Tensor, context: Holder) -> UninitializedError:
    """The error for a tensor whose memory nobody has written in a context."""
    where = location_text(tensor.op)
    what = f"`{tensor.label}`" if where is None else f"`{tensor.label}` (made at {where})"
    return UninitializedError(
        f"{what} has no value yet: nothing has written it{in_other_contexts([tensor], context)}"
    )


def in_other_contexts(tensors: Iterable[Tensor], context: Holder) -> str:
    """Which other context has values of tensors that have none in this one, for an error."""
    for other in sorted(DEFAULT.living, key=repr):
        for tensor in tensors:
            if other is not context and tensor in other and tensor not in context:
                way = f"`with ctx:` makes another context the default, which is {DEFAULT.get()} here"
                return f" in {context}, but `{tensor.label}` has a value in {other}; {way}"
    return ""
