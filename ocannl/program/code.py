"""Code, the statements of a routine in order, and the blocks that collect it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.program import graph
from ocannl.program.errors import ArgumentError
from ocannl.program.location import user_location
from ocannl.program.stages import stage_text
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

    def ir(self, stage: str = "texpr", *, origins: bool = False) -> str:
        """The text of the program that runs this code, at a stage of the pipeline; with `origins`, each
        operation is followed by the expressions and lines that it comes from.
        """
        return stage_text(self.statements, self.label or "code", stage, origins=origins)

    def __repr__(self) -> str:
        return f"<code {self.label!r}: {len(self.statements)} statements>"


_recording: ContextVar[Code | None] = ContextVar("recording", default=None)


def is_recording() -> bool:
    """Whether an `oc.code` block is open."""
    return _recording.get() is not None


@contextmanager
def code(label: str) -> Generator[Code, None, None]:
    """A context in which assignments are collected as code: `t[...] = value`, `t += value` and its like,
    `oc.accumulate`, `oc.set`, and other code by `oc.run`. `label` is a comment in the IR.
    """
    block = Code([_comment(label)], label)
    token = _recording.set(block)
    try:
        with collector_paused():
            yield block
    finally:
        _recording.reset(token)


def emit(op: Operation, label: str = "") -> Code:
    """The code of one statement, which is added to the open block if there is one."""
    statement = Code([graph.add_statement(op)], label)
    block = _recording.get()
    if block is not None:
        block.statements += statement.statements
    return statement


def run(other: Code) -> Code:
    """Adds other code to the open `oc.code` block, and returns it. Raises `OcannlError` without a block."""
    block = _recording.get()
    if block is None:
        raise OcannlError("oc.run needs an open `with oc.code(...)` block; outside, code is added up with +")
    block.statements += other.statements
    return other


def block_comment(text: str, body: Code) -> Code:
    """The same code after a comment with a text, which is its label."""
    if not isinstance(body, Code):
        raise ArgumentError(f"a heading stands over code, found {type(body).__name__}")
    return Code([_comment(text), *body.statements], text)


def _comment(text: str) -> Operation:
    comment = texpr.CommentOp(text)
    comment.location = user_location()
    return comment
