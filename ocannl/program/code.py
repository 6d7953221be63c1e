"""Code, the statements of a routine in order, and the blocks that collect it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import user_location
from ocannl.program.mistakes.other_names import NamesApart
from ocannl.program.mistakes.recomputation import warn_of_recomputation
from ocannl.program.module.stages import stage_text, view_statements
from ocannl.program.values import Value, now
from ocannl.program.why.placements import OfValue, PlacementView
from ocannl.runtime.collector import collector_paused
from ocannl.viewer.show import Viewable


class Code(Viewable, NamesApart):
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

    def placement(self, tensor: OfValue) -> PlacementView:
        """How a tensor is split over the mesh made last, in this code: `oc.why(step.placement(w))`."""
        return PlacementView(tensor.ir_value, self.statements)

    def ir(self, stage: str = "texpr", *, origins: bool = False, target: str | None = None) -> str:
        """The text of the program that runs this code, at a stage of the pipeline; with `origins`, each
        operation is followed by the expressions and lines that it comes from. Schedules are for the processor
        `target`, by LLVM's name: by default `OCANNL_TARGET`, else `x86-64-v4`.
        """
        return stage_text(self.statements, self.label or "code", stage, origins=origins, target=target)

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Shows the program that runs this code at all levels of its compilation, as `oc.view`."""
        return view_statements(self.statements, self.label or "code", path)

    def __repr__(self) -> str:
        return f"<code {self.label!r}: {len(self.statements)} statements>"


class Recording(Code):
    """The code of an open block. Code that is made inside the block belongs to it, at the place where it was
    made, until `oc.run` gives it another place.
    """

    def __init__(self, statements: Iterable[Operation] = (), label: str = "") -> None:
        super().__init__(statements, label)
        self.added = [now()] * len(self.statements)
        """When each statement was added."""
        self._made: set[Operation] = set()

    def add(self, statements: Iterable[Operation], *, made: bool) -> None:
        """Adds statements at the end. Those that were made in this block move there from the place where they
        were made. With `made`, the statements are made in this block now.
        """
        added = list(statements)
        self.take_back(added)
        self.statements += added
        self.added += [now()] * len(added)
        if made:
            self._made.update(added)

    def take_back(self, statements: Iterable[Operation]) -> None:
        """Removes those statements that were made here, and that nothing has run yet."""
        moved = self._made.intersection(statements)
        if not moved:
            return
        kept = [at for at, op in enumerate(self.statements) if op not in moved]
        self.statements[:] = [self.statements[at] for at in kept]
        self.added = [self.added[at] for at in kept]
        self._made -= moved


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def is_recording() -> bool:
    """Whether an `oc.code` block is open."""
    return _recording.get() is not None


def ends_block(code: Code) -> bool:
    """Whether the open block ends with some code."""
    block = _recording.get()
    return block is not None and block.statements[-len(code.statements) :] == code.statements


@contextmanager
def recording(block: Recording) -> Generator[None, None, None]:
    """A context in which statements that are made are added to a block."""
    token = _recording.set(block)
    try:
        with collector_paused():
            yield
    finally:
        _recording.reset(token)


@contextmanager
def code(label: str = "code") -> Generator[Code, None, None]:
    """A context in which assignments are collected as code: `t[...] = value`, `t += value` and its like,
    `oc.accumulate`, `oc.set`, and other code by `oc.run`. `label` is a comment in the IR.

    A block inside of another belongs to that one, at its end or where `oc.run` puts it. Warns of an
    expression that the block changes and computes again.
    """
    block = Recording([_comment(label)], label)
    with recording(block):
        yield block
    warn_of_recomputation(block.statements)
    _made_here(block)


def emit(op: Operation, label: str = "") -> Code:
    """The code of one statement, which is added to the open block if there is one."""
    RECORDER.note_statement(op)
    return _made_here(Code([graph.add_statement(op)], label))


def _made_here(code: Code) -> Code:
    block = _recording.get()
    if block is not None:
        block.add(code.statements, made=True)
    return code


def computing(value: Value, label: str = "") -> Code:
    """The code that computes a value; no open block gets it."""
    return Code([graph.add_statement(texpr.ForwardOp(value))], label)


def run(other: Code) -> Code:
    """Adds other code to the open `oc.code` block, and returns it; code that was made in this block gets its
    place here. Without a block, eager mode runs it at once; else this raises `OcannlError`.
    """
    block = _recording.get()
    if block is None and is_eager():
        ENGINE.only.run(other.statements)
        return other
    if block is None:
        raise OcannlError("oc.run needs an open `with oc.code(...)` block; outside, code is added up with +")
    block.add(other.statements, made=False)
    return other


def at_once(code: Code) -> Code:
    """The same code, which eager mode runs if no block is open."""
    if is_eager() and not is_recording():
        ENGINE.only.run(code.statements)
    return code


def put_aside(code: Code) -> None:
    """Takes code that belongs to an expression out of the open block."""
    RECORDER.let_go(code.statements)
    block = _recording.get()
    if block is not None:
        block.take_back(code.statements)


def block_comment(text: str, body: Code) -> Code:
    """The same code after a comment with a text, which is its label."""
    if not isinstance(body, Code):
        raise ArgumentError(f"a heading stands over code, found {type(body).__name__}")
    return _made_here(Code([_comment(text), *body.statements], text))


def _comment(text: str) -> Operation:
    comment = texpr.CommentOp(text)
    comment.location = user_location()
    return comment
