"""Handles on values of the program under construction, whatever can be done with the values."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number
from ocannl.program.code import Code, emit
from ocannl.program.location import here, is_users_call, user_location, warn_at
from ocannl.program.text.html import text_html
from ocannl.program.types.dtypes import dtype_of
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value, label_of, operation_of


class Handle:
    """A handle on a value. Handles of the same value are equal, and can be keys."""

    __slots__ = ("__weakref__", "ir_value")

    def __init__(self, value: Value) -> None:
        self.ir_value = value

    @property
    def op(self) -> texpr.TensorOp:
        """The operation that makes this value."""
        return operation_of(self.ir_value)

    @property
    def label(self) -> str:
        """The name given by the user, or one made from the operation."""
        return label_of(self.ir_value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, inferred from what this depends on; reading it decides nothing."""
        return dtype_of(element_now(self.ir_value))

    @property
    def forward(self) -> Code:
        """Code that computes this expression and leaves its value in memory."""
        return emit(texpr.ForwardOp(self.ir_value), self.label)

    @property
    def zero_grads(self) -> Code:
        """Code that sets the gradients of everything that this depends on to zero."""
        return emit(texpr.ZeroGradsOp(self.ir_value))

    @property
    def backprop(self) -> Code:
        """Code that adds to the gradients of everything that this depends on, from this tensor's gradient."""
        return emit(texpr.BackpropOp(self.ir_value))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Neither copied nor pickled: the value is in the memory of contexts."""
        raise ArgumentError(
            f"`{self.label}` is a handle on memory, or on how to compute it: its values are copied and saved "
            "from a context, by `ctx[t]` and `ctx.save(path, model)`"
        )

    def __eq__(self, other: object) -> bool:
        """Identity. Warns where a user compares with numbers, as in NumPy."""
        if isinstance(other, Handle):
            return other.ir_value is self.ir_value
        if (is_number(other) or isinstance(other, np.ndarray)) and is_users_call():
            words = f"`{self.label}` is no number, and equal to none: oc.eq compares its elements"
            warn_at(user_location(), words)
        return False

    def __hash__(self) -> int:
        return hash(self.ir_value)

    def _repr_html_(self) -> str:
        return text_html(repr(self))


def check_updated(updated: object, memory: Handle, name: str) -> None:
    """Checks what an in-place operator assigns to an attribute: memory itself, which it has written."""
    if updated != memory:
        raise OcannlError(
            here(
                f"`{memory.label}` is memory: `t.{name}[...] = x` or `t.{name} *= x` in a code block sets it"
            )
        )
