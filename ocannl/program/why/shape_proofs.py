"""Which lines of a program a shape follows from.

A line is an operation: one that computes puts constraints on shapes, a leaf says the rows that it was given.
Lines prove a shape if inference on them alone gives it, closing included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count, takewhile
from typing import TypeAlias

from xdsl.ir import SSAValue

from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.shapes.shape import ROW_KINDS, Row, Shape
from ocannl.dialects.texpr import MemoryOp, TensorOp
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.texpr.infer_shapes.constraints import Origin, ValueRow, demands_of
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.infer_shapes import leaves_of, variables
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import Constraint, Leaf, LeafKind, RowEq, RowLe
from ocannl.program import graph
from ocannl.program.values import Value, operation_of

MOST_LINES = 7
"""So many lines are searched for the fewest that prove; of more, none can be left out alone."""

NEAR = 3
"""Lines so near are tried before the causes of the whole program."""

Answer = Callable[[Shape], object]
"""A question about a shape."""

Proves: TypeAlias = Callable[[Collection[TensorOp]], bool]
"""Whether lines alone give the answer."""


def proof(value: Value, answer: Answer, wanted: object) -> list[TensorOp] | None:
    """Lines, the nearest first, that prove what is asked of the shape of a value: the fewest of those found,
    and no part of them does. None where expressions that are gone have determined it, or other programs.
    """

    def proves(lines: Collection[TensorOp]) -> bool:
        shape = shape_by(value, lines)
        return shape is not None and answer(shape) == wanted

    lines = _some_lines(value, proves)
    return None if lines is None else fewest(without_needless(lines, proves), proves) or [operation_of(value)]


def without_needless(lines: list[TensorOp], proves: Proves) -> list[TensorOp]:
    """Of lines that prove some that do, of which none can be left out alone, in the same order."""
    return none_needless(_without_parts(lines, proves), proves)


def none_needless(lines: list[TensorOp], proves: Proves) -> list[TensorOp]:
    """The same, for lines of which most are needed: each is left out by itself."""
    # Closing is not monotonic: with less known, a line that was needed may be needed no more. So all are
    # tried in turn, the farthest first, until each of those that are left was needed beside the others.
    at = needed = 0
    while needed < len(lines):
        at = (at or len(lines)) - 1
        fewer = [*lines[:at], *lines[at + 1 :]]
        if proves(fewer):
            lines, needed = fewer, 0
        else:
            needed += 1
    return lines


def fewest(lines: list[TensorOp], proves: Proves) -> list[TensorOp]:
    """Of up to `MOST_LINES` lines that prove the fewest that do, and more lines as they are."""
    if len(lines) > MOST_LINES:
        return lines
    parts = (part for size in range(len(lines)) for part in combinations(lines, size))
    return next((list(part) for part in parts if proves(part)), lines)


def _some_lines(value: Value, proves: Proves) -> list[TensorOp] | None:
    """Lines that prove: those that are near; else of the whole program the causes of the shape, and of these
    the causes by themselves; else those that are twice as near each time. None where no lines do.
    """
    shells = list(_neighbourhoods(value))
    lines = next((near for near in shells[:NEAR] if proves(near)), None)
    if lines is not None or len(shells) <= NEAR:
        return lines
    found = shells[-1]
    while len(causes := _causes(value, found)) < len(found) and proves(causes):
        lines = found = causes
    distances = takewhile(lambda d: d < len(shells), (NEAR << k for k in count(1)))
    return lines or next((s for d in (*distances, len(shells)) if proves(s := shells[d - 1])), None)


def _causes(value: Value, lines: Collection[TensorOp]) -> list[TensorOp]:
    """Of some lines those whose constraints determine a shape by inference on all, with their leaves."""
    inference = Inference(lines)
    return [] if inference.shape(value) is None else inference.causes(value)


def _without_parts(lines: list[TensorOp], proves: Proves) -> list[TensorOp]:
    """The lines without parts that are not needed, the farthest first and the largest first, halved down to
    pairs: a number of questions in the logarithm of the number of lines, where few are needed (Zeller and
    Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).
    """
    size = len(lines) // 2
    while size > 1:
        for start in reversed(range(0, len(lines), size)):
            fewer = [*lines[:start], *lines[start + size :]]
            lines = fewer if proves(fewer) else lines
        size //= 2
    return lines


def shape_by(value: Value, lines: Collection[TensorOp]) -> Shape | None:
    """The final shape of a value by some lines alone; None where they contradict closing."""
    return Inference(lines).shape(value)


def _neighbourhoods(value: Value) -> Iterator[list[TensorOp]]:
    """The lines that are near a value: its own; with those of its operands, and those that constrain its
    rows; with those that are near these, until there are no more.
    """
    edge = [operation_of(value)]
    found = dict.fromkeys(edge)
    while edge:
        near = dict.fromkeys(other for op in edge for other in _next_to(op))
        edge = [op for op in near if op not in found]
        found |= dict.fromkeys(edge)
        yield list(found)


def _next_to(op: TensorOp) -> Iterator[TensorOp]:
    if isinstance(op.result, Value):
        yield from map(operation_of, op.result.cell)
    for operand in operands_of(op):
        if isinstance(operand.owner, TensorOp):
            yield operand.owner
    for origin in graph.solver().origins(shape_of(op.result)):
        made = origin.op if isinstance(origin, Origin) else None
        if isinstance(made, TensorOp) and isinstance(made.result, Value):
            yield made


@dataclass
class Inference:
    """The shapes that follow from some lines."""

    lines: Collection[TensorOp]
    given: dict[SSAValue, Shape] = field(default_factory=dict[SSAValue, Shape])
    """The rows of leaves, unknown ones of those that are no line."""
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    solver: Solver = field(default_factory=Solver)

    def shape(self, value: Value) -> Shape | None:
        """The final shape of a value; None where the lines contradict closing."""
        return self.known(value) if self.run([value]) else None

    def proves(self, value: Value, wanted: Shape) -> bool:
        """Whether a value has a final shape; where another one is determined, inference goes no further."""

        def is_another() -> bool:
            known = self.known(value)
            closed = [(row, other) for row, other in zip(known, wanted, strict=True) if row.var is None]
            return any(len(row.axes) != len(other.axes) for row, other in closed) or (
                known.is_final and known != wanted
            )

        return self.run([value], is_another) and self.known(value) == wanted

    def run(self, values: Iterable[Value] = (), is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Whether the shapes of the lines, and of some values besides, can be inferred, all or enough."""
        lines = sorted(self.lines, key=when_made)
        self._take_leaves(values, lines)
        try:
            for op in lines:
                demands = demands_of(op, self.solver)
                self.solver.add(*map(self._replaced, demands.found))
                for name, dim in demands.new.items():
                    rows = Shape(Row(), Row(), Row((dim,)))
                    self.leaves.append(Leaf(rows, LeafKind.CONSTANT, name))
            self.solver.close(self.leaves, is_enough)
        except ShapeInferenceError:
            return False
        return True

    def known(self, value: Value) -> Shape:
        """The shape of a value, after a run."""
        return self.solver.shape(self.given.get(value) or shape_of(value))

    def causes(self, value: Value) -> list[TensorOp]:
        """The lines whose constraints determined the shape of a value in a run, with their leaves, the
        nearest first.
        """
        ops = dict.fromkeys([operation_of(value)])
        for cause in self.solver.causes(self.given.get(value) or shape_of(value)):
            op = cause.op if isinstance(cause, Origin) else cause
            if isinstance(op, TensorOp):
                ops[op] = None
                ops |= dict.fromkeys(o.owner for o in operands_of(op) if isinstance(o.owner, MemoryOp))
        return [op for op in ops if op in self.lines]

    def _take_leaves(self, asked: Iterable[Value], lines: Sequence[TensorOp]) -> None:
        operands = [operand for op in lines for operand in operands_of(op)]
        values = dict.fromkeys([*asked, *(op.result for op in lines), *operands])
        ops = sorted({v.owner for v in values if isinstance(v.owner, TensorOp)}, key=when_made)
        self.solver.reserve(*variables(ops))
        for op in ops:
            for leaf in leaves_of(op):
                shape = leaf.shape if op in self.lines else self._unknown()
                self.given[op.result] = shape
                self.leaves.append(replace(leaf, shape=shape, kind=_kind(leaf)))

    def _unknown(self) -> Shape:
        batch, input, output = (Row((), self.solver.fresh_row(), ()) for _ in ROW_KINDS)
        return Shape(batch, input, output)

    def _replaced(self, constraint: Constraint) -> Constraint:
        """With the rows of leaves as they are known here."""
        origin = constraint.origin
        if not isinstance(constraint, RowEq | RowLe) or not isinstance(origin, Origin):
            return constraint
        left = self._row(constraint.left, origin.left)
        right = self._row(constraint.right, origin.right)
        return type(constraint)(left, right, origin)

    def _row(self, row: Row, place: ValueRow) -> Row:
        given = self.given.get(place.value)
        is_own = given is not None and row == shape_of(place.value).row(place.kind)
        return given.row(place.kind) if given is not None and is_own else row


def _kind(leaf: Leaf) -> LeafKind:
    """Parameters may stay open here: it is shapes that are asked for, not whether they are determined. They
    close as in a program, where numbers take no axes that others would.
    """
    return LeafKind.DATA if leaf.kind is LeafKind.PARAM else leaf.kind


def when_made(op: TensorOp) -> int:
    """The place of a line among all, in the order in which they were made."""
    return op.result.made if isinstance(op.result, Value) else -1
