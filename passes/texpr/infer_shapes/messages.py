"""Shape errors as users read them: the operation and its line, the shapes with the clash marked, and the
reasons.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import ShapeError, at_line, location_text
from ocannl.dialects.shapes.shape import ROW_KINDS, DimTerm, Row, RowKind, Shape
from ocannl.dialects.shapes.spec import Slot
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr import ApplyOp, ConstantOp, DataOp, ParamOp, RangeOp, SliceOp
from ocannl.passes.texpr.infer_shapes.constraints import Origin, ShapeOf, ValueRow, ranges_of
from ocannl.passes.texpr.infer_shapes.descriptions import describe, shortened, tensor_name
from ocannl.passes.texpr.infer_shapes.errors import (
    MORE_AXES,
    OTHER_COUNTS,
    MissingDimension,
    ShapeConflict,
    ShapeInferenceError,
)
from ocannl.passes.texpr.infer_shapes.hints import hint_for
from ocannl.passes.texpr.infer_shapes.sides import Side
from ocannl.passes.texpr.infer_shapes.terms import LeafKind

# The letters from which on a word in a spec may be meant as a name.
SHORTEST_NAME = 3

MEMORY_ORDER: tuple[RowKind, ...] = ("batch", "output", "input")

# The separator after each row in the text of a shape.
SEPARATORS: dict[RowKind, str] = {"batch": "|", "input": "->", "output": ""}


def shape_error(
    error: ShapeInferenceError, op: Operation, shape_of: ShapeOf, within: str | None = None
) -> ShapeError:
    """The user's error for an error of the solver; `op` is where it showed, if the error does not say.
    `within` is the text of the user's expression that has made `op`, where that is not the user's own.
    """
    if isinstance(error, MissingDimension):
        return _missing(error, op)
    if isinstance(error, ShapeConflict):
        return _conflict(error, op, shape_of, within)
    return ShapeError(at_line(op, str(error)))


def _missing(error: MissingDimension, op: Operation) -> ShapeError:
    origin = error.leaf.origin if isinstance(error.leaf.origin, Operation) else op
    if error.leaf.kind is LeafKind.RANGE:
        return _missing_range(origin)
    if error.leaf.kind is LeafKind.NAME:
        name = error.leaf.name
        message = (
            f"nothing determines the size of `{name}`, which only the result of `{describe(origin)}` has: "
            f"give it, as in {name}=16, or use the result with something of known size"
        )
        return ShapeError(at_line(origin, message))
    kind, name = error.row_kind, error.leaf.name
    example = f"oc.param({name!r}, {kind}=16)"
    if kind == "output" and "." in name:
        # Parameters of blocks have names in scopes.
        example = f"out_dim=16 of a block, out_channels=16 of a convolution or {example}"
    other = "what it is multiplied with" if kind == "input" else "a bias that is added to its product"
    message = (
        f"you forgot to give the hidden dimension of `{name}` (its {kind} axes)\n"
        f"  nothing determines it: give it here, as in {example}, or to {other}"
    )
    return ShapeError(at_line(origin, message))


def _missing_range(origin: Operation) -> ShapeError:
    """The error for positions whose number is not known; where a spec names their axis, with its name."""
    positions = origin.results[0]
    for user in (use.operation for use in positions.uses):
        if isinstance(user, ApplyOp) and user.logic is not None and "=>" in user.logic.data:
            slot = parse_spec(user.logic.data).operands[list(user.args).index(positions)]
            names = [str(axis) for row in slot.rows for axis in row.axes]
            if len(names) != 1 or not names[0].isidentifier():
                continue
            name = names[0]
            message = (
                f"nothing determines the size of `{name}`, an axis of `{describe(user)}`: give it, as in "
                f"{name}=16, or use the result with something of known size"
            )
            return ShapeError(at_line(origin, message))
    message = "nothing determines the size of this range: give it, or use it with something of known size"
    return ShapeError(at_line(origin, message))


def _conflict(error: ShapeConflict, op: Operation, shape_of: ShapeOf, within: str | None) -> ShapeError:
    origin = error.origin if isinstance(error.origin, Origin) else None
    at = op if origin is None else origin.op
    inside = within if location_text(at) == location_text(op) else None
    sides = [] if origin is None else _sides(error, origin, shape_of)
    if inside is not None:
        sides = [_as_user_knows(side, at, shape_of, inside) for side in sides]
        sides.sort(key=lambda side: inside.find(tensor_name(side.value)) % (len(inside) + 1))
    clash = str(error) if origin is None else _clash(error, origin, sides, shape_of, inside is None)
    lines = [at_line(at, f"shapes do not fit in `{inside or shortened(describe(at))}`: {clash}")]
    lines += [line for side in sides for line in _side_lines(side, shape_of, _is_of_sizes(error))]
    others = _operations(error.because, at)
    elsewhere = [other for other in others if location_text(other) != location_text(at)]
    lines += [f"  because of {line}" for line in _because(elsewhere, inside is None)]
    hint = hint_for(error, [at, *others], sides, shape_of, is_users=inside is None)
    return ShapeError("\n".join(lines + ([f"  hint: {hint}"] if hint else [])))


def _as_user_knows(side: Side, at: Operation, shape_of: ShapeOf, inside: str) -> Side:
    """A side that was computed where the user sees one expression, `inside`: what it was computed from in its
    place, if that is one tensor with such a row.
    """
    value = side.value
    if not isinstance(value.owner, ApplyOp) or location_text(value.owner) != location_text(at):
        return side
    sources, seen = [value], list[SSAValue]()
    while sources:
        source = sources.pop()
        owner = source.owner
        if isinstance(owner, ApplyOp) and location_text(owner) == location_text(at):
            sources += owner.args
        elif source not in seen and not isinstance(owner, ConstantOp | RangeOp):
            seen.append(source)
    if len(seen) == 1 and side.kind and shape_of(seen[0]).row(side.kind).axes == _axes(side, shape_of):
        return replace(side, value=seen[0])
    given = [f"`{tensor_name(source)}`" for source in seen if not isinstance(source.owner, ParamOp)]
    if value.name_hint and (len(given) != 1 or value.name_hint in inside):
        return side
    what = side.name if value.name_hint else "a value"
    return replace(side, shown_as=f"{what} computed {f'from {given[0]}' if len(given) == 1 else 'there'}")


def _count(side: Side, shape_of: ShapeOf) -> str | None:
    """How many axes the row of a side has; None where that is not known."""
    row = None if side.kind is None else shape_of(side.value).row(side.kind)
    if side.kind is None or row is None or not row.is_closed:
        return None
    return f"{side.name} has {_counted(row.known, side.kind)}"


def _axes(side: Side, shape_of: ShapeOf) -> tuple[DimTerm, ...]:
    assert side.kind is not None
    return shape_of(side.value).row(side.kind).axes


def _is_of_sizes(error: ShapeConflict) -> bool:
    return error.reason.startswith("sizes ") and error.reason.endswith(" differ")


def _clash(
    error: ShapeConflict, origin: Origin, sides: Sequence[Side], shape_of: ShapeOf, has_spec: bool
) -> str:
    """The clash in words: two sizes that differ, each with its tensor, and the name that a spec gives them;
    or how many axes a spec wants.
    """
    note = _note(error, origin, shape_of) if has_spec else None
    if error.reason == OTHER_COUNTS:
        return note or error.reason
    if error.reason == MORE_AXES:
        counts = [_count(side, shape_of) for side in sides]
        known = [count for count in counts if count is not None]
        return ", ".join(known) if len(known) == len(sides) > 1 else error.reason
    if isinstance(origin.op, SliceOp) and _is_of_sizes(error):
        return _clash_of_index(error, origin.op, sides) or error.reason
    found = {side.name: side.size for side in sides if side.size is not None}
    if not _is_of_sizes(error) or len(set(found.values())) < 2:
        return error.reason.replace(" differ", f" of {note} differ") if note else error.reason
    both = ", ".join([f"{size} in {name}" for name, size in found.items()])
    return f"axis {note} is {both}" if note else f"size {both}"


def _clash_of_index(error: ShapeConflict, op: SliceOp, sides: Sequence[Side]) -> str | None:
    """The size of an axis, and the range of the static index at which it is sliced."""
    for side in sides:
        others = [int(size) for size in re.findall(r"\d+", error.reason) if size != str(side.size)]
        names = [name for name, size in ranges_of(op).items() if size in others]
        if len(names) == len(others) == 1:
            return f"size {side.size} in {side.name}, and the index `{names[0]}` takes {others[0]} values"
    return None


def _sides(error: ShapeConflict, origin: Origin, shape_of: ShapeOf) -> list[Side]:
    """Both sides of the clash; where a result and an operand clash, all operands, as the user wrote them."""
    left, right, op = origin.left, origin.right, origin.op
    if isinstance(op, DataOp):
        return [Side(op.result)]
    if isinstance(op, SliceOp):
        return [Side(op.source, right.kind, error.left, error.left_axis)]
    if isinstance(op, ApplyOp) and left.value is right.value and left.kind == right.kind:
        numbers = [k for k, arg in enumerate(op.args) if not isinstance(arg.owner, RangeOp)]
        return [_spec_side(error, op, left, number, shape_of) for number in numbers]
    if isinstance(op, ApplyOp) and left.value is op.result and left.kind == right.kind and len(op.args) > 1:
        from_end = _from_end(error)
        return [_operand_side(arg, right.kind, from_end, shape_of) for arg in op.args]
    sides = [Side(left.value, left.kind, error.left, error.left_axis)]
    if right.value is not left.value or right.kind != left.kind:
        sides.append(Side(right.value, right.kind, error.right, error.right_axis))
    return sides


def _spec_side(error: ShapeConflict, op: ApplyOp, place: ValueRow, number: int, shape_of: ShapeOf) -> Side:
    """An operand of a spec: the one that does not fit, or another with an axis of the same name."""
    arg, axis = op.args[number], error.left_axis
    if arg is place.value:
        return Side(arg, place.kind, error.left, axis)
    if op.logic is None or axis is None or place.value not in op.args:
        return Side(arg)
    slots = parse_spec(op.logic.data).operands
    wanted = slots[list(op.args).index(place.value)].rows[ROW_KINDS.index(place.kind)]
    for kind, row in zip(ROW_KINDS, slots[number].rows, strict=True):
        known = shape_of(arg).row(kind)
        if wanted.var is row.var is None and axis < len(wanted.axes) and wanted.axes[axis] in row.axes:
            return Side(arg, kind, known, row.axes.index(wanted.axes[axis]))
        if wanted.var is not None and wanted.var == row.var and isinstance(error.left, Row):
            from_end = len(error.left.axes) - axis - len(wanted.trailing)
            at = len(known.axes) - len(row.trailing) - from_end
            return Side(arg, kind, known, at if len(row.leading) <= at else None)
    return Side(arg)


def _note(error: ShapeConflict, origin: Origin, shape_of: ShapeOf) -> str | None:
    """The part of the spec about an axis that does not fit earlier uses of its name."""
    left, right, op = origin.left, origin.right, origin.op
    if not isinstance(op, ApplyOp) or left.value is not right.value or left.kind != right.kind:
        return None
    return _spec_note(op, left, error.left_axis, shape_of(left.value))


def _spec_note(op: ApplyOp, place: ValueRow, axis: int | None, shape: Shape) -> str | None:
    """The name in a spec of an axis of an operand whose row is closed in it, or the number of axes it should
    have.
    """
    if op.logic is None or place.value not in op.args:
        return None
    number, spec = list(op.args).index(place.value), op.logic.data
    names, known = parse_spec(spec).operands[number], shape.row(place.kind)
    row = names.rows[ROW_KINDS.index(place.kind)]
    slot = spec.partition("=>")[0].split(";")[number].strip()
    if row.var is not None:
        return None
    if axis is not None:
        return f"`{row.axes[axis]}`" if axis < len(row.axes) else None
    if known.is_closed and known.known == len(row.axes):
        return None
    wanted, name = _counted(len(row.axes), place.kind), tensor_name(place.value)
    own = f"{'at least ' if known.var else ''}{known.known}" if known.known else "none"
    more = _letters(names, slot) or _in_rows(names, shape, ", " if "," in spec else " ")
    return f"its slot `{slot}` has {wanted}, `{name}` has {own}{more}"


def _letters(names: Slot, slot: str) -> str:
    """The words for a slot whose axes of one letter may be meant as the names of fewer."""
    axes = [str(axis) for row in names.rows for axis in row.axes]
    are_letters = all(len(axis) == 1 for axis in axes)
    words = re.findall(r"[^\W\d]\w*", slot)
    has_word = any(len(word) >= SHORTEST_NAME or re.search(r"\d", word) for word in words)
    return "; without a comma each letter is an axis" if axes and are_letters and has_word else ""


def _in_rows(slot: Slot, shape: Shape, between: str) -> str:
    """The words for the names of all axes of a shape in other rows: they are meant in the order of memory."""
    rows = [shape.row(kind) for kind in MEMORY_ORDER]
    named = [slot.rows[ROW_KINDS.index(kind)] for kind in MEMORY_ORDER]
    names = [str(axis) for row in named for axis in row.axes]
    is_closed = all(row.is_closed for row in rows) and all(row.var is None for row in named)
    if not is_closed or len(names) != sum(row.known for row in rows):
        return ""
    left = iter(names)
    batch, output, inputs = (between.join(itertools.islice(left, row.known)) for row in rows)
    return f"; its axes are `{batch and f'{batch} | '}{inputs and f'{inputs} -> '}{output}`"


def _counted(count: int, kind: RowKind) -> str:
    return f"1 {kind} axis" if count == 1 else f"{count or 'no'} {kind} axes"


def _from_end(error: ShapeConflict) -> int | None:
    """The place of the clashing axis, counted from the end of the operand's row."""
    if isinstance(error.right, Row) and error.right_axis is not None:
        return len(error.right.axes) - error.right_axis
    return None


def _operand_side(value: SSAValue, kind: RowKind, from_end: int | None, shape_of: ShapeOf) -> Side:
    row = shape_of(value).row(kind)
    axis = None if from_end is None or len(row.axes) < from_end else len(row.axes) - from_end
    return Side(value, kind, row, axis)


def _side_lines(side: Side, shape_of: ShapeOf, is_of_sizes: bool) -> list[str]:
    shape = _known(shape_of(side.value), side.kind, is_of_sizes)
    head = f"  {side.name.replace('`', '')}: "
    line = f"{head}{shape}"
    if side.kind is None:
        return [line]
    marked = _mark(shape, side.kind, side.axis if isinstance(side.row, Row) else None)
    if marked is None:
        return [f"{line}    (it has no {side.kind} axes)"]
    line += f"    (its {side.kind} axes)"
    start, width = marked
    return [line, " " * (len(head) + start) + "^" * width]


def _known(shape: Shape, kind: RowKind | None, is_of_sizes: bool) -> Shape:
    """A shape without the other rows of which nothing is known; if that is all, with its output. Where sizes
    clash, without the axes that known ones might have before them.
    """
    shown = {k: Row() if shape.row(k) == Row(var=shape.row(k).var) else shape.row(k) for k in ROW_KINDS}
    shown["output" if kind is None else kind] = shape.row("output" if kind is None else kind)
    if is_of_sizes:
        shown = {k: Row(trailing=row.axes) if row.axes else row for k, row in shown.items()}
    return Shape(**shown)


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
    if axis is None or not 0 <= axis < row.known:
        return start, len(text)
    place = axis + (row.var is not None and axis >= len(row.leading))
    return start + sum(len(p) + 1 for p in parts[:place]), len(parts[place])


def _row_text(shape: Shape, kind: RowKind) -> str:
    """The text of one row, as in the text of the shape."""
    empty = Row()
    alone = Shape(*(shape.row(k) if k == kind else empty for k in ROW_KINDS))
    return str(alone).removesuffix(SEPARATORS[kind]) if shape.row(kind) != empty else ""


def _operations(origins: Sequence[object], at: Operation) -> list[Operation]:
    """The operations, other than `at`, that made a constraint."""
    found = [origin.op if isinstance(origin, Origin) else origin for origin in origins]
    return [op for op in found if isinstance(op, Operation) and op is not at]


def _because(ops: Sequence[Operation], is_users: bool) -> list[str]:
    """The lines that decided, with what stands there; of what is not the user's own, its operands."""
    lines = [f"{location_text(op) or 'an earlier operation'}: {_shown(op, is_users)}" for op in ops]
    return list(dict.fromkeys(lines))[:4]


def _shown(op: Operation, is_users: bool) -> str:
    if is_users or not isinstance(op, ApplyOp):
        return f"`{describe(op)}`"
    return " with ".join([f"`{tensor_name(arg)}`" for arg in op.args if not isinstance(arg.owner, RangeOp)])
