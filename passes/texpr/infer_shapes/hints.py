"""The way out of a clash of shapes, where one is likely."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import permutations

from xdsl.ir import Operation

from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, Row, Shape
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr import ApplyOp, DataOp, ParamOp, SliceOp
from ocannl.dialects.texpr.tensor_type import shape_of as declared_shape
from ocannl.passes.texpr.infer_shapes.constraints import Origin, ShapeOf
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.infer_shapes.sides import Side

# The sizes of an axis that may be the channels of images.
CHANNELS = (1, 2, 3, 4)


def hint_for(
    error: ShapeConflict,
    ops: Sequence[Operation],
    sides: Sequence[Side],
    shape_of: ShapeOf,
    *,
    is_users: bool,
) -> str | None:
    """The first hint that fits: `ops` are the operation that fails, and those that decided before it. What is
    about operators and specs is said only where these are the user's own.
    """
    always = (_given_size(sides), _window(error, sides, shape_of))
    if not is_users:
        return next(filter(None, always), None)
    found = (
        _operator(ops[0], shape_of),
        *map(_misspelt, ops),
        *always,
        _one_position(error, shape_of),
        _pointwise(ops[0], sides, shape_of),
        _one_name(error, ops[0], sides),
    )
    return next(filter(None, found), None)


def _misspelt(op: Operation) -> str | None:
    """A long name that occurs once in a spec and is similar to another; None if there is none."""
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


def _window(error: ShapeConflict, sides: Sequence[Side], shape_of: ShapeOf) -> str | None:
    """The way out where a window does not fit in an axis."""
    found = re.match(r"a window of size \d+ does not fit in an axis of size (\d+)", error.reason)
    if found is None or not sides:
        return None
    turned = channels_first(tensor_name(sides[0].value), shape_of(sides[0].value), int(found[1]))
    return turned or "a smaller window fits, or a padded axis: use_padding=True"


def channels_first(name: str, shape: Shape, size: int) -> str | None:
    """How images get channels last, where an axis of a size looks like channels before larger axes."""
    last = [dim.size if isinstance(dim, Dim) else 0 for dim in shape.memory_axes[-3:]]
    if size not in CHANNELS or len(last) < 3 or last[0] != size or min(last[1:]) <= size:
        return None
    turned = f'oc.einsum("..., c, h | w => ..., h, w | c", {name})'
    return f"channels stand last here, unlike in PyTorch: {turned}"


def _operator(op: Operation, shape_of: ShapeOf) -> str | None:
    """Another operator, or another order of its operands, for which shapes would fit."""
    if isinstance(op, SliceOp) and op.positions.data[0].all and shape_of(op.source).batch == Row():
        name = tensor_name(op.source)
        return f"`{name}` has no batch axis to slice; `{name}[i, ...]` takes the first axis in memory"
    if not isinstance(op, ApplyOp) or op.logic is None or len(op.args) != 2:
        return None
    left, right = (shape_of(a) for a in op.args)
    if op.logic.data == "." and left.input.axes and left.input.axes == right.output.axes:
        return "`@` is the tensor product; `*` works point by point"
    if op.logic.data == "@" and left.input.is_closed and not left.input.axes:
        x, w = map(tensor_name, op.args)
        if right.input.is_closed and not right.input.axes:
            return (
                f"neither has input axes, over which `@` sums, as weights have; {_of_data(x, w, left, right)}"
            )
        return f"weights stand on the left, `{w} @ {x}`, since `@` sums over the input axes of its left side"
    if op.logic.data == "@" and right.input.axes and right.input.axes == left.output.axes:
        return "the product applies its right side first, as composed functions do: try to swap the operands"
    return None


def _of_data(a: str, b: str, left: Shape, right: Shape) -> str:
    """How to write a product of two values without input axes: of vectors and of matrices, by `einsum`."""
    sizes = left.memory_axes, right.memory_axes
    rows = [(len(shape.batch.axes), len(shape.output.axes)) for shape in (left, right)]
    specs = {(0, 1): "i; i => ", (1, 1): "i | j; j | k => i | k", (0, 2): "i j; j k => i k"}
    if rows[0] == rows[1] and rows[0] in specs and sizes[0][-1] == sizes[1][0]:
        return f'oc.einsum("{specs[rows[0]]}", {a}, {b}) is the product of data'
    return "oc.einsum says which axes of data are summed"


def _given_size(sides: Sequence[Side]) -> str | None:
    """Where a parameter was made with the size that does not fit: the size that would."""
    for side in reversed(sides):
        others = [other.size for other in sides if other is not side]
        if side.kind is None or side.axis is None or not isinstance(side.value.owner, ParamOp):
            continue
        given = declared_shape(side.value).row(side.kind).axes
        is_given = len(given) > side.axis and given[side.axis] == Dim(side.size or 0)
        if is_given and len(others) == 1 and others[0] not in (None, side.size):
            name, made = tensor_name(side.value), location_text(side.value.owner)
            where = f" at {made}" if made else ""
            return f"give `{name}` the size {others[0]}{where}, or none: it is then inferred"
    return None


def _pointwise(op: Operation, sides: Sequence[Side], shape_of: ShapeOf) -> str | None:
    """The sizes that fit point by point, or the axis along which an operand was meant."""
    if not isinstance(op, ApplyOp) or op.logic is None or op.logic.data != ".":
        return None
    sizes = {side.size for side in sides}
    sizes_fit = (
        None if None in sizes or len(sizes) < 2 else "point by point, sizes are equal, or one of them is 1"
    )
    for side, other in permutations(sides, 2):
        own, batch = shape_of(side.value), shape_of(other.value).batch.axes
        if batch and own.memory_axes == own.output.axes == batch[-1:]:
            name = tensor_name(side.value)
            way = f'oc.einsum("i => i |", {name})'
            way = 'oc.data(array, axes="b")' if isinstance(side.value.owner, DataOp) else way
            meant = f"to go along the batch of `{tensor_name(other.value)}`, `{name}` needs a batch axis"
            return f"{meant}: {way}"
    return sizes_fit


def _one_name(error: ShapeConflict, op: Operation, sides: Sequence[Side]) -> str | None:
    """The meaning of a name in a spec, where two operands have axes of other sizes."""
    if not isinstance(op, ApplyOp) or op.logic is None or op.logic.data in (".", "@", "T"):
        return None
    sizes = {side.size for side in sides}
    if not error.reason.endswith(" differ"):
        return None
    slots = parse_spec(op.logic.data).operands
    if sizes & {None, 1} and any(row.var is not None for slot in slots for row in slot.rows):
        return (
            "a row variable is the same axes in all slots of a spec; `*` broadcasts, and its sum is one loop"
        )
    if None in sizes or len(sizes) < 2:
        return None
    joined = next((word for word in op.logic.data.partition("=>")[2].split() if "^" in word), None)
    if joined is not None:
        return f"parts that `{joined}` joins have equal sizes along all other axes"
    return "a name has one size in a spec: if these axes are not one, one of them needs another name"
