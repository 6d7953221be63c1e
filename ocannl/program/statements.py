"""Statements over tensors: computing them, derivatives into gradients, and assignments to memory."""

from __future__ import annotations

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code, emit
from ocannl.program.indexing.memory_parts import Part
from ocannl.program.tensor import Tensor, TensorLike, as_memory, as_tensor, assign
from ocannl.program.tracing.padded_axes import note_reduction

SET = "set"
"""In place of an accumulation: the value is set."""


def set(target: Tensor | Part[Tensor], value: TensorLike) -> Code:
    """Code that sets memory to the value of an expression, broadcast to its shape; or a part of it,
    `oc.set(m.at[2:4], value)`.

    Raises `OcannlError` for a target that is an expression.
    """
    return assign(target, value)


def accumulate(
    target: Tensor | Part[Tensor],
    accum: str,
    value: TensorLike,
    *,
    spec: str | None = None,
    logic: str | None = None,
    reset: bool = False,
) -> Code:
    """Code that accumulates an expression into memory:
    `oc.accumulate(top, "max", oc.relu(p), spec="...->... => 0")`.

    The target is memory, or a part such as `m.at[2:4]`, into which it accumulates point by point: where ids
    choose a cell several times, all of them. `accum` is an accumulating operator (add, mul, max, min, or,
    and), or "set"; `spec` an einsum spec, or `logic` "." or "T". With "set" and a concatenation,
    `spec="a => a^b"`, the part is set. With `reset` the memory is set to the neutral element first. Raises
    `OcannlError` for another operator, for a target that is not memory, and when compiled for a sum that is
    set; `ArgumentError` for a spec beside a logic.
    """
    entry = SCALAR_OPS.get(accum)
    if accum != SET and (entry is None or entry.neutral is None):
        names = ", ".join(n for n, op in SCALAR_OPS.items() if op.neutral is not None)
        raise OcannlError(f"`{accum}` does not accumulate; use {SET}, or one of {names}")
    operator = None if accum == SET else accum
    if operator is None and reset:
        raise ArgumentError("memory that is set has no neutral element to be reset to")
    if spec is not None and logic is not None:
        raise ArgumentError("an accumulation has a spec or a logic, found both")
    how = spec or logic or "."
    if how == "@":
        raise OcannlError(
            'the logic "@" combines two tensors: accumulate the expression `a @ b` with the logic "."'
        )
    if isinstance(target, Part):
        if how != "." or reset:
            raise ArgumentError("into a part, an expression is accumulated point by point: no spec, no reset")
        return assign(target, value, operator)
    memory = as_memory(target)
    op = texpr.AssignOp(memory, as_tensor(value).ir_value, accum=operator, reset=reset, logic=how)
    note_reduction(op, memory)
    return emit(op)


def forward(tensor: TensorLike) -> Code:
    """Code that computes an expression here and leaves its value in memory."""
    return as_tensor(tensor).forward


def zero_grads(tensor: Tensor) -> Code:
    """Code that sets to zero the gradients of everything that a tensor depends on."""
    return as_tensor(tensor).zero_grads


def backprop(tensor: Tensor) -> Code:
    """Code that adds to the gradients of everything that a tensor depends on, from the tensor's gradient."""
    return as_tensor(tensor).backprop
