"""Why a tensor has its shape, its dtype or its name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ocannl.dialects.ir.errors import ShapeError, location_text
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, Row, RowKind, Shape
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError, PositionError
from ocannl.program.tensor import Tensor
from ocannl.program.types.dtypes import dtype_of
from ocannl.program.types.final_types import element_now, shape_now
from ocannl.program.types.shape_view import ShapeView
from ocannl.program.values import Value, is_memory, label_of, operation_of, values_of
from ocannl.program.why.placements import PlacementView
from ocannl.program.why.reasons import Line, Reasons, given_by, lines_of
from ocannl.program.why.shape_proofs import Answer, proof

QUESTIONS = ("shape", "dtype", "name")


def why(
    what: Tensor | ShapeView[Any] | PlacementView, question: str = "shape", axis: int | None = None
) -> Reasons:
    """Why a tensor has its shape, or one of its rows, or an axis of that: `oc.why(t.shape)`,
    `oc.why(t, "output", 0)`; why its dtype or its name: `oc.why(t, "dtype")`; why its placement on a mesh:
    `oc.why(t.placement)`.

    The answer has the fewest lines of the program from which a shape follows, inference on them alone, the
    nearest first; no part of them is enough. Of a dtype they are the way to what says it. Asking decides
    nothing.

    Raises `ArgumentError` for another question, `IndexError` for an axis that does not exist.
    """
    if isinstance(what, PlacementView):
        return what.reasons
    value = what.value if isinstance(what, ShapeView) else _value(what)
    if question == "dtype":
        return _dtype(value)
    if question == "name":
        return _name(value)
    for kind in ROW_KINDS:
        if question == kind:
            return _row(value, kind, axis)
    if question != "shape" or axis is not None:
        known = ", ".join((*QUESTIONS, *ROW_KINDS))
        raise ArgumentError(f"it is asked for {known}, an axis with a row; found {question!r}")
    known_shape = _shape(value)
    so_far = "" if known_shape.is_final else " so far"
    text = f"`{tensor_name(value)}` has the shape {known_shape}{so_far}"
    return _proven(value, text, lambda shape: _fits(shape, known_shape), True)


def _value(what: object) -> Value:
    if not isinstance(what, Tensor):
        raise ArgumentError(f"a tensor is asked for, or its shape, found {type(what).__name__}")
    return what.ir_value


def _shape(value: Value) -> Shape:
    """The final shape, or where nothing determines it what is known. Uses count as well as operands."""
    known = graph.known_shape(value)
    if not known.is_final and not is_memory(value):
        with suppress(ShapeError):
            return shape_now(value)
    return known


def _row(value: Value, kind: RowKind, axis: int | None) -> Reasons:
    row, name = _shape(value).row(kind), tensor_name(value)
    if axis is None:
        shape = Shape(*(row if k == kind else Row() for k in ROW_KINDS))
        text = f"`{name}` has the {kind} row {_row_text(shape, kind)}"
        return _proven(value, text, lambda found: _row_fits(found.row(kind), row), True)
    number = integer(axis, "the number of an axis", least=None)
    axes = row.axes if row.var is None else row.leading if number >= 0 else row.trailing
    if not -len(axes) <= number < len(axes):
        raise PositionError(f"the {kind} row of `{name}` has no axis {number}: {_shape(value)}")
    dim = axes[number]
    if not isinstance(dim, Dim):
        raise ArgumentError(f"nothing determines axis {number} of the {kind} row of `{name}`")

    def size(found: Shape) -> object:
        axes = found.row(kind).axes
        return axes[number] if -len(axes) <= number < len(axes) else None

    return _proven(value, f"axis {number} of the {kind} row of `{name}` is {dim}", size, dim)


def _proven(value: Value, text: str, answer: Answer, wanted: object) -> Reasons:
    lines = proof(value, answer, wanted)
    if lines is None:
        text = f"{text}, by expressions that are gone, or by other code that was compiled"
        lines = [operation_of(value)]
    return Reasons(text, lines_of(lines, given_by(lines)))


def _row_text(shape: Shape, kind: RowKind) -> str:
    return str(shape).strip("|").removesuffix("->" if kind == "input" else "") or "()"


def _fits(found: Shape, known: Shape) -> bool:
    return all(_row_fits(row, other) for row, other in zip(found, known, strict=True))


def _row_fits(found: Row, known: Row) -> bool:
    """Whether a closed row has the known axes of one that may be open."""
    ahead, behind = len(known.leading), len(known.trailing)
    if len(found.axes) < ahead + behind or (known.var is None and len(found.axes) > ahead + behind):
        return False
    pairs = [*zip(found.axes, known.leading, strict=False)]
    pairs += zip(found.axes[len(found.axes) - behind :], known.trailing, strict=True)
    return all(not isinstance(dim, Dim) or one == dim for one, dim in pairs)


def _dtype(value: Value) -> Reasons:
    """The way from a value to what says its dtype: at each step the first operand that has it."""
    element, lines = element_now(value), [operation_of(value)]
    while True:
        operands = () if is_memory(lines[-1].result) else values_of(lines[-1])
        found = [operation_of(v) for v in operands if v.op not in lines and element_now(v) == element]
        if not found:
            break
        lines.append(found[0])
    dtype = dtype_of(element)
    source = lines[-1].result
    said = "" if source.type.element_or_none is not None else ", unless its uses say otherwise"
    given = {lines[-1]: f"{dtype}{said}"} if is_memory(source) else {}
    return Reasons(f"`{tensor_name(value)}` has the dtype {dtype}", lines_of(lines, given))


def _name(value: Value) -> Reasons:
    """The scopes that memory was made in, or the operation of an expression."""
    place, path = location_text(value.op), value.path
    if path is None:
        how = "that it was given" if value.name_hint else "of its operation"
        return Reasons(f"`{label_of(value)}` has the name {how}", (Line(place, "it is made"),))
    scopes = ", in ".join(f"`{scope.label}`" for scope in reversed(path.scopes))
    text = f"it is called `{path.label}`" + (f", in {scopes}" if scopes else "")
    note = "; where paths repeat, numbers in order of making tell them apart" if scopes else ""
    return Reasons(f"`{label_of(value)}` has the name of its path", (Line(place, text + note),))
