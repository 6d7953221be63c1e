"""Answers to why something is as it is: what it is, and the lines from which that follows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.texpr import DataOp, MemoryOp, NodeOp, ParamOp, TensorOp
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.texpr.infer_shapes.descriptions import describe, tensor_name
from ocannl.passes.texpr.infer_shapes.infer_shapes import LEAF_KINDS
from ocannl.program.text.html import text_html


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's program, and what it says."""

    place: str | None
    text: str

    def __str__(self) -> str:
        return self.text if self.place is None else f"{self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Reasons:
    """An answer, and the lines that it follows from, the nearest first."""

    answer: str
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join([self.answer, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return text_html(str(self))


def lines_of(ops: Iterable[TensorOp], given: dict[TensorOp, str]) -> tuple[Line, ...]:
    """The lines of operations; of leaves also what each is given."""
    return tuple([Line(location_text(op), _text(op, given.get(op, ""))) for op in ops])


def given_by(lines: Iterable[TensorOp]) -> dict[TensorOp, str]:
    """The shapes that leaves are given."""
    leaves = [op for op in lines if type(op) in LEAF_KINDS]
    return {op: str(shape_of(op.result)) for op in leaves}


def _text(op: TensorOp, given: str) -> str:
    name = f"`{tensor_name(op.result) if isinstance(op, MemoryOp) else describe(op)}`"
    kinds: dict[type[TensorOp], str] = {DataOp: "data", ParamOp: "parameter", NodeOp: "node"}
    head = f"{kinds[type(op)]} {name}" if type(op) in kinds else name
    return f"{head}: {given}" if given else head
