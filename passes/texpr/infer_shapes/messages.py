"""Shape errors as users read them: the operation and its line, the shapes with the clash marked, and the
reasons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import ShapeError, at_line, location_text
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, Row, RowKind, Shape
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr import ApplyOp, DataOp, SliceOp
from ocannl.passes.texpr.infer_shapes.constraints import Origin, ShapeOf, ValueRow
from ocannl.passes.texpr.infer_shapes.descriptions import describe, tensor_name
from ocannl.passes.texpr.infer_shapes.errors import MissingDimension, ShapeConflict, ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.terms import LeafKind

# The separator after each row in the text of a shape.
SEPARATORS: dict[RowKind, str] = {"batch": "|", "input": "->", "output": ""}


def shape_error(error: ShapeInferenceError, op: Operation, shape_of: ShapeOf) -> ShapeError:
    """The user's error for an error of the solver; `op` is where it showed, if the error does not say."""
    if isinstance(error, MissingDimension):
        return _missing(error, op)
    if isinstance(error, ShapeConflict):
        return _conflict(error, op, shape_of)
    return ShapeError(at_line(op, str(error)))


def _missing(error: MissingDimension, op: Operation) -> ShapeError:
    origin = error.leaf.origin if isinstance(error.leaf.origin, Operation) else op
    if error.leaf.kind is LeafKind.RANGE:
        message = "nothing determines the size of this range: give it, or use it with something of known size"
        return ShapeError(at_line(origin, message))
    if error.leaf.kind is LeafKind.NAME:
        name = error.leaf.name
        message = (
            f"nothing determines the size of `{name}`, which only the result of `{describe(origin)}` has: "
            f"give it, as in {name}=16, or use the result with something of known size"
        )
        return ShapeError(at_line(origin, message))
    kind = error.row_kind
    example = f"oc.param({error.leaf.name!r}, {kind}=16)"
    message = (
        f"you forgot to give the hidden dimension of `{error.leaf.name}` (its {kind} row)\n"
        f"  nothing that uses `{error.leaf.name}` determines it; give it where the parameter is made, "
        f"as in {example}, "
        "or give the size of a parameter that is added to it"
    )
    return ShapeError(at_line(origin, message))


def _conflict(error: ShapeConflict, op: Operation, shape_of: ShapeOf) -> ShapeError:
    origin = error.origin if isinstance(error.origin, Origin) else None
    at = op if origin is None else origin.op
    lines = [at_line(at, f"shapes do not fit in `{describe(at)}`")]
    if origin is not None:
        lines += _sides(error, origin, shape_of)
    lines.append(f"  {error if origin is None else error.reason}")
    others = _operations(error.because, at)
    lines += [f"  because of {line}" for line in _because(others)]
    hint = _hint(at, shape_of) or next(filter(None, map(_misspelt, [at, *others])), None)
    hint = hint or _one_position(error, shape_of)
    return ShapeError("\n".join(lines + ([f"  hint: {hint}"] if hint else [])))


def _sides(error: ShapeConflict, origin: Origin, shape_of: ShapeOf) -> list[str]:
    """Both sides of the clash; where a result and an operand clash, all operands, as the user wrote them."""
    left, right, op = origin.left, origin.right, origin.op
    if isinstance(op, DataOp):
        return [f"  {op.label.data}: {shape_of(op.result)}"]
    if isinstance(op, ApplyOp) and left.value is right.value and left.kind == right.kind:
        return _spec_lines(error, op, left, shape_of)
    if isinstance(op, ApplyOp) and left.value is op.result and left.kind == right.kind and len(op.args) > 1:
        from_end = _from_end(error)
        return [line for arg in op.args for line in _operand_lines(arg, right.kind, from_end, shape_of)]
    lines = _place_lines(left, error.left, error.left_axis, shape_of)
    if right.value is not left.value or right.kind != left.kind:
        lines += _place_lines(right, error.right, error.right_axis, shape_of)
    return lines


def _spec_lines(error: ShapeConflict, op: ApplyOp, place: ValueRow, shape_of: ShapeOf) -> list[str]:
    """The operands of a spec, with the axis marked that does not fit the earlier uses of its name."""
    lines: list[str] = []
    for arg in op.args:
        if arg is place.value:
            lines += _place_lines(place, error.left, error.left_axis, shape_of)
        else:
            lines.append(f"  {tensor_name(arg)}: {shape_of(arg)}")
    note = _spec_note(op, place, error.left_axis, shape_of(place.value).row(place.kind))
    return [*lines, f"  {note}"] if note else lines


def _spec_note(op: ApplyOp, place: ValueRow, axis: int | None, known: Row) -> str | None:
    """The name in a spec of an axis of an operand whose row is closed in it, or the number of axes it should
    have.
    """
    if op.logic is None or place.value not in op.args:
        return None
    number, spec = list(op.args).index(place.value), op.logic.data
    row = parse_spec(spec).operands[number].rows[ROW_KINDS.index(place.kind)]
    slot = spec.partition("=>")[0].split(";")[number].strip()
    if row.var is not None:
        return None
    if axis is not None:
        return f"this axis is `{row.axes[axis]}` in the spec" if axis < len(row.axes) else None
    if known.is_closed and known.known == len(row.axes):
        return None
    if not row.axes:
        return f"its slot in the spec, `{slot}`, has no {place.kind} axes"
    axes = "1 axis" if len(row.axes) == 1 else f"{len(row.axes)} axes"
    return f"its slot in the spec, `{slot}`, has {axes} for this row"


def _from_end(error: ShapeConflict) -> int | None:
    """The place of the clashing axis, counted from the end of the operand's row."""
    if isinstance(error.right, Row) and error.right_axis is not None:
        return len(error.right.axes) - error.right_axis
    return None


def _operand_lines(value: SSAValue, kind: RowKind, from_end: int | None, shape_of: ShapeOf) -> list[str]:
    row = shape_of(value).row(kind)
    axis = None if from_end is None or len(row.axes) < from_end else len(row.axes) - from_end
    return _place_lines(ValueRow(value, kind), row, axis, shape_of)


def _place_lines(place: ValueRow, row: object, axis: int | None, shape_of: ShapeOf) -> list[str]:
    name, shape = tensor_name(place.value), shape_of(place.value)
    head = f"  {name}: "
    line = f"{head}{shape}    (its {place.kind} row)"
    marked = _mark(shape, place.kind, axis if isinstance(row, Row) else None)
    if marked is None:
        return [line]
    start, width = marked
    return [line, " " * (len(head) + start) + "^" * width]


def _mark(shape: Shape, kind: RowKind, axis: int | None) -> tuple[int, int] | None:
    """The columns of a row, or of one of its axes, in the text of the shape; None for a row without axes."""
    start, text = 0, ""
    for k in ROW_KINDS:
        text = _row_text(shape, k)
        if k == kind:
            break
        start += len(text) + (len(SEPARATORS[k]) if text else 0)
    row, parts = shape.row(kind), text.split(",")
    if not text:
        return None
    if axis is None or row.var is not None or not 0 <= axis < len(parts):
        return start, len(text)
    return start + sum(len(p) + 1 for p in parts[:axis]), len(parts[axis])


def _row_text(shape: Shape, kind: RowKind) -> str:
    """The text of one row, as in the text of the shape."""
    empty = Row()
    alone = Shape(*(shape.row(k) if k == kind else empty for k in ROW_KINDS))
    return str(alone).removesuffix(SEPARATORS[kind]) if shape.row(kind) != empty else ""


def _operations(origins: Sequence[object], at: Operation) -> list[Operation]:
    """The operations, other than `at`, that made a constraint."""
    found = [origin.op if isinstance(origin, Origin) else origin for origin in origins]
    return [op for op in found if isinstance(op, Operation) and op is not at]


def _because(ops: Sequence[Operation]) -> list[str]:
    lines = [f"{location_text(op) or 'an earlier operation'}: `{describe(op)}`" for op in ops]
    return list(dict.fromkeys(lines))[:4]


def _misspelt(op: Operation) -> str | None:
    """A long name that occurs once in a spec and is similar to another one; None if there is none."""
    if not isinstance(op, ApplyOp) or op.logic is None or op.logic.data in (".", "@", "T"):
        return None
    words = re.findall(r"[^\W\d]\w+", op.logic.data) if "," in op.logic.data else []
    for word in words:
        near = get_close_matches(word, [other for other in words if other != word], 1, cutoff=0.75)
        if words.count(word) == 1 and near:
            return f"`{word}` occurs once in the spec: did you mean `{near[0]}`?"
    return None


def _one_position(error: ShapeConflict, shape_of: ShapeOf) -> str | None:
    """How an axis of size 1 is broadcast in a spec, where the clash is over one; else None."""
    origin, axis = error.origin, error.left_axis
    if not isinstance(origin, Origin) or not isinstance(origin.op, ApplyOp) or axis is None:
        return None
    op, place = origin.op, origin.left
    if op.logic is None or op.logic.data in (".", "@", "T") or place.value not in op.args:
        return None
    slots = parse_spec(op.logic.data).operands
    wanted = slots[list(op.args).index(place.value)].rows[ROW_KINDS.index(place.kind)]
    if wanted.var is not None or axis >= len(wanted.axes):
        return None
    for arg, slot in zip(op.args, slots, strict=True):
        for row, known in zip(slot.rows, shape_of(arg), strict=True):
            pairs = zip(row.axes, known.axes, strict=False) if row.var is known.var is None else ()
            if (wanted.axes[axis], Dim(1)) in pairs:
                name, operand = wanted.axes[axis], tensor_name(arg)
                instead = f"`0` in place of `{name}` takes the only position of `{operand}`"
                return f"a name has one size in a spec: {instead}"
    return None


def _hint(op: Operation, shape_of: ShapeOf) -> str | None:
    if isinstance(op, SliceOp) and not _row_text(shape_of(op.source), "batch"):
        name = tensor_name(op.source)
        return f"`{name}` has no batch axis to slice; other axes take a fixed position in a spec"
    if not isinstance(op, ApplyOp) or op.logic is None or len(op.args) != 2:
        return None
    left, right = (shape_of(a) for a in op.args)
    if op.logic.data == "." and left.input.axes and left.input.axes == right.output.axes:
        return "`@` is the tensor product; `*` works point by point"
    if op.logic.data == "@" and left.input.is_closed and not left.input.axes:
        name = tensor_name(op.args[0])
        return f"`{name}` has no input axes for `@` to sum over; weights stand on the left, `w @ x`"
    if op.logic.data == "@" and right.input.axes and right.input.axes == left.output.axes:
        return "the product applies its right side first, as composed functions do: try to swap the operands"
    return None
