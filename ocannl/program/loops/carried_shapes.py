"""A check that what a loop carries keeps its shape, as far as shapes are known."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, Row, Shape
from ocannl.passes.texpr.infer_shapes.descriptions import describe, shortened
from ocannl.program import graph
from ocannl.program.location import here
from ocannl.program.values import Value, label_of


def check_carries(
    loop: str, inits: Sequence[Value], carries: Sequence[Value], returned: Sequence[Value]
) -> None:
    """Raises `ShapeError` for a carry to which a step gives axes of other sizes, or more of them."""
    for init, before, after in zip(inits, carries, returned, strict=True):
        said = _change(graph.known_shape(before), graph.known_shape(after), shortened(describe(after.op)))
        if said is not None:
            raise ShapeError(here(f"the carry `{label_of(init)}` of {loop} has to keep its shape: {said}"))


def _change(before: Shape, after: Shape, value: str) -> str | None:
    """How the shape of a carry changes in a step that returns a value; None if it may stay the same."""
    rows = [*zip(ROW_KINDS, before, after, strict=True)]
    for kind, row, other in rows:
        if row.var is not None and row.var == other.var and row.known != other.known:
            more = abs(other.known - row.known)
            axes = f"{more} {kind} {'axis' if more == 1 else 'axes'}"
            return f"each step gives it {axes} {'more' if row.known < other.known else 'less'}, as `{value}`"
    has_more = any(
        (row.is_closed and other.known > row.known) or (other.is_closed and row.known > other.known)
        for _, row, other in rows
    )
    if not has_more and not any(_has_other_sizes(row, other) for _, row, other in rows):
        return None
    first, then = ((_text(s) if has_more else str(_known(s))) or "()" for s in (before, after))
    way = f"return a carry of the shape {first}"
    return f"the step takes it with {first} and returns it with {then}, as `{value}`\n  hint: {way}"


def _has_other_sizes(row: Row, other: Row) -> bool:
    pairs = zip(row.axes, other.axes, strict=False)
    is_aligned = row.known == other.known
    return is_aligned and any(isinstance(a, Dim) and isinstance(b, Dim) and a != b for a, b in pairs)


def _known(shape: Shape) -> Shape:
    return Shape(*(Row(trailing=row.axes) for row in shape))


def _text(shape: Shape) -> str:
    """The text of a shape without the rows of which nothing is known."""
    return str(Shape(*(row if row.known else Row() for row in shape)))
