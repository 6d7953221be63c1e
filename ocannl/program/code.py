"""Code: what a routine does, in order, over the tensors of the program."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program import graph
from ocannl.program.misuse import ArgumentError
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, is_memory
from ocannl.runtime.collector import collector_paused


class Code:
    """A sequence of statements. `a + b` is `a`, then `b`; the empty code is `Code()`."""

    def __init__(self, statements: Iterable[Operation] = (), label: str = "") -> None:
        self.statements: list[Operation] = list(statements)
        if not all(isinstance(statement, Operation) for statement in self.statements):
            raise ArgumentError("code is made of statements, which functions such as oc.forward return")
        self.label = label

    def __add__(self, other: Code) -> Code:
        if not isinstance(other, Code):
            return NotImplemented
        both = Code(label=self.label or other.label)
        both.statements += [*self.statements, *other.statements]
        return both

    def __radd__(self, other: object) -> Code:
        """So that `sum` adds code up."""
        return self if other == 0 else NotImplemented

    def ir(self, stage: str = "texpr") -> str:
        """The text of the program that runs this code, at a stage of the pipeline."""
        from ocannl.execute.stages import stage_text

        return stage_text(self, self.label or "code", stage)

    def __repr__(self) -> str:
        return f"<code {self.label!r}: {len(self.statements)} statements>"


_recording: ContextVar[Code | None] = ContextVar("recording", default=None)


def is_recording() -> bool:
    """Whether an `oc.code` block is open."""
    return _recording.get() is not None


@contextmanager
def code(label: str) -> Generator[Code, None, None]:
    """Collects the assignments made inside: `t[...] = value`, `t += value`, `oc.accumulate`, and other
    code by `oc.run`.
    """
    block = Code([texpr.CommentOp(label)], label)
    token = _recording.set(block)
    try:
        with collector_paused():
            yield block
    finally:
        _recording.reset(token)


def _emit(op: Operation) -> Code:
    """One statement: part of the open block, if there is one."""
    statement = Code([graph.add(op)])
    block = _recording.get()
    if block is not None:
        block.statements += statement.statements
    return statement


def run(other: Code) -> Code:
    """Runs other code at this point of the open block."""
    block = _recording.get()
    if block is None:
        raise OcannlError("oc.run needs an open `with oc.code(...)` block; outside, code is added up with +")
    block.statements += other.statements
    return other


def _memory(target: Tensor) -> Tensor:
    if not isinstance(target, Tensor):
        target = as_tensor(target)
    if not is_memory(target):
        raise OcannlError(
            f"`{target.label}` is an expression, not memory: "
            "only parameters, data, nodes, gradients and values are assigned"
        )
    return target


def record_set(target: Tensor, value: TensorLike) -> None:
    """`target[...] = value` inside a code block."""
    if not is_recording():
        raise OcannlError(
            "memory is assigned inside a `with oc.code(...)` block, or by oc.set(target, value); "
            "a context's copy is set by ctx[target] = array"
        )
    set(target, value)


def set(target: Tensor, value: TensorLike) -> Code:
    """Code that sets memory to the value of an expression, broadcast to its shape."""
    return _emit(texpr.AssignOp(_memory(target).ir_value, as_tensor(value).ir_value, logic="."))


def accumulate(
    target: Tensor,
    accum: str,
    value: TensorLike,
    *,
    spec: str | None = None,
    logic: str | None = None,
    reset: bool = False,
) -> Code:
    """Code that accumulates an expression into memory: `oc.accumulate(top, "max", oc.relu(p), spec="...->...
    => 0")`.

    `accum` is an accumulating operator (add, mul, max, min, or, and); `spec` an einsum spec, or `logic` "."
    or "T". With `reset` the memory starts at the accumulation's neutral element.
    """
    entry = SCALAR_OPS.get(accum)
    if entry is None or entry.neutral is None:
        names = ", ".join(n for n, op in SCALAR_OPS.items() if op.neutral is not None)
        raise OcannlError(f"`{accum}` does not accumulate; use one of {names}")
    how = spec or logic or "."
    if how == "@":
        raise OcannlError(
            'the logic "@" combines two tensors: accumulate the expression `a @ b` with the logic "."'
        )
    target = _memory(target)
    op = texpr.AssignOp(target.ir_value, as_tensor(value).ir_value, accum=accum, reset=reset, logic=how)
    return _emit(op)


def forward(tensor: TensorLike) -> Code:
    """Code that computes an expression here and leaves its value in memory."""
    target = as_tensor(tensor)
    result = _emit(texpr.ForwardOp(target.ir_value))
    result.label = target.label
    return result


def zero_grads(tensor: Tensor) -> Code:
    return _emit(texpr.ZeroGradsOp(as_tensor(tensor).ir_value))


def backprop(tensor: Tensor) -> Code:
    return _emit(texpr.BackpropOp(as_tensor(tensor).ir_value))


def block_comment(text: str, body: Code) -> Code:
    """The same code under a heading."""
    if not isinstance(body, Code):
        raise ArgumentError(f"a heading stands over code, found {type(body).__name__}")
    return Code([texpr.CommentOp(text), *body.statements], text)
