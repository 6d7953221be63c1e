"""Infers iteration spaces and index maps, for each operation by itself, from its logic and the final shapes.

Two axes of equal size are iterated together only if the operation's own logic ties them. An axis of size 1
is indexed at 0 and takes no iteration variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ocannl.dialects.errors import OcannlError, at_line
from ocannl.dialects.linear import Linear
from ocannl.dialects.shape import Row, Shape
from ocannl.dialects.spec import Anything, Axis, Fixed, Name, RowSpec, Slot, parse_spec
from ocannl.dialects.term import Arg
from ocannl.dialects.texpr import ApplyOp, AssignOp, SliceOp, TensorOp, TexprRoutineOp, shape_of

ZERO = Linear()


class MisfitError(Exception):
    """Shapes written in the text that do not fit the operation's logic; inference never makes such."""


@dataclass
class Projection:
    """The space and maps of one operation under construction."""

    taken: set[str]
    space: dict[str, int] = field(default_factory=dict[str, int])

    def variable(self, size: int, hint: str) -> Linear:
        """A new iteration variable; axes of size 1 need none."""
        if size == 1:
            return ZERO
        name, count = hint, 0
        while name in self.space or name in self.taken:
            count += 1
            name = f"{hint}{count}"
        self.space[name] = size
        return Linear.var(name)

    def row(self, row: Row, hint: str) -> list[Linear]:
        return [self.variable(size, hint) for size in row.sizes]

    def result(self, shape: Shape) -> RowMaps:
        """One variable an axis, in the order of memory."""
        batch, output = self.row(shape.batch, "b"), self.row(shape.output, "o")
        return RowMaps(batch, self.row(shape.input, "i"), output)


@dataclass
class RowMaps:
    """The index expressions of a tensor's axes, by row."""

    batch: list[Linear]
    input: list[Linear]
    output: list[Linear]

    @property
    def memory(self) -> tuple[Linear, ...]:
        return (*self.batch, *self.output, *self.input)


def broadcast(indices: Sequence[Linear], row: Row, operand: Row) -> list[Linear]:
    """The indices of an operand's row that `row`, indexed at `indices`, refines.

    Leading axes align left, trailing axes right; an axis of size 1 is indexed at 0.
    """
    ahead, behind, sizes = len(operand.leading), len(operand.trailing), row.sizes
    if ahead + behind > len(sizes):
        raise MisfitError
    partners = [*range(ahead), *range(len(sizes) - behind, len(sizes))]
    if any(size not in (1, sizes[partner]) for partner, size in zip(partners, operand.sizes, strict=True)):
        raise MisfitError
    return [
        ZERO if size == 1 and sizes[partner] != 1 else indices[partner]
        for partner, size in zip(partners, operand.sizes, strict=True)
    ]


def pointwise(result: RowMaps, shape: Shape, operand: Shape) -> RowMaps:
    return RowMaps(
        broadcast(result.batch, shape.batch, operand.batch),
        broadcast(result.input, shape.input, operand.input),
        broadcast(result.output, shape.output, operand.output),
    )


def transpose(result: RowMaps, shape: Shape, operand: Shape) -> RowMaps:
    return RowMaps(
        broadcast(result.batch, shape.batch, operand.batch),
        broadcast(result.output, shape.output, operand.input),
        broadcast(result.input, shape.input, operand.output),
    )


def compose(
    projection: Projection, result: RowMaps, shape: Shape, left: Shape, right: Shape
) -> tuple[RowMaps, RowMaps]:
    contracted = projection.row(left.input, "k")
    return (
        RowMaps(
            broadcast(result.batch, shape.batch, left.batch),
            contracted,
            broadcast(result.output, shape.output, left.output),
        ),
        RowMaps(
            broadcast(result.batch, shape.batch, right.batch),
            broadcast(result.input, shape.input, right.input),
            broadcast(contracted, left.input, right.output),
        ),
    )


@dataclass
class SpecMaps:
    """Variables of one spec: a name or a row variable is the same in all slots."""

    projection: Projection
    names: dict[str, Linear] = field(default_factory=dict[str, Linear])
    rows: dict[str, list[Linear]] = field(default_factory=dict[str, list[Linear]])
    sizes: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    def slot(self, slot: Slot, shape: Shape) -> RowMaps:
        return RowMaps(
            self._row(slot.batch, shape.batch.sizes, "b"),
            self._row(slot.input, shape.input.sizes, "i"),
            self._row(slot.output, shape.output.sizes, "o"),
        )

    def _row(self, spec: RowSpec, sizes: Sequence[int], hint: str) -> list[Linear]:
        end = len(sizes) - len(spec.trailing)
        if end < len(spec.leading) or (spec.var is None and end > len(spec.leading)):
            raise MisfitError
        leading = [self._axis(a, s) for a, s in zip(spec.leading, sizes, strict=False)]
        middle = sizes[len(spec.leading) : end]
        if spec.var is not None:
            self._same(f"..{spec.var}..", middle)
            if spec.var not in self.rows:
                self.rows[spec.var] = [self.projection.variable(s, hint) for s in middle]
            leading += self.rows[spec.var]
        return leading + [self._axis(a, s) for a, s in zip(spec.trailing, sizes[end:], strict=True)]

    def _axis(self, axis: Axis, size: int) -> Linear:
        match axis:
            case Name(name):
                self._same(name, (size,))
                if name not in self.names:
                    self.names[name] = self.projection.variable(size, name)
                return self.names[name]
            case Fixed(position):
                if position >= size:
                    raise MisfitError
                return Linear((), position)
            case Anything():
                return self.projection.variable(size, "u")
            case _:
                raise AssertionError(f"shape inference admits no axis {axis}")

    def _same(self, name: str, sizes: Sequence[int]) -> None:
        """A name stands for the same sizes in all slots."""
        if tuple(self.sizes.setdefault(name, sizes)) != tuple(sizes):
            raise MisfitError


def whole(
    sizes: Sequence[int], taken: Iterable[str]
) -> tuple[tuple[Linear, ...], tuple[tuple[str, int], ...]]:
    """An iteration over every cell of an array, with variables that are not `taken`."""
    projection = Projection(set(taken))
    maps = tuple(projection.variable(size, "i") for size in sizes)
    return maps, tuple(projection.space.items())


def covers(indices: Sequence[Linear], space: Mapping[str, int], sizes: Sequence[int]) -> bool:
    """The map from the space onto an array of these sizes is a bijection."""
    variables = [index.variable for index, size in zip(indices, sizes, strict=True) if size != 1]
    return (
        sorted(v for v in variables if v is not None) == sorted(space)
        and all(
            v is not None and space[v] == s
            for v, s in zip(variables, (s for s in sizes if s != 1), strict=True)
        )
        and all(index == ZERO for index, size in zip(indices, sizes, strict=True) if size == 1)
    )


def project_apply(op: ApplyOp, taken: set[str]) -> None:
    assert op.logic is not None
    shape, projection = shape_of(op.result), Projection(taken)
    args = [shape_of(a) for a in op.args]
    if len(args) != {"T": 1, "@": 2}.get(op.logic.data, len(args)):
        raise MisfitError
    match op.logic.data:
        case ".":
            result = projection.result(shape)
            maps = [pointwise(result, shape, arg) for arg in args]
        case "T":
            result = projection.result(shape)
            maps = [transpose(result, shape, arg) for arg in args]
        case "@":
            result = projection.result(shape)
            maps = list(compose(projection, result, shape, *args))
        case text:
            result, maps = _spec_maps(projection, text, shape, args)
    accum = op.accum_name
    if accum is not None and covers(result.memory, projection.space, shape.memory_sizes):
        accum = None
    _replace(op, result.memory, [m.memory for m in maps], projection.space, accum)


def _spec_maps(
    projection: Projection, text: str, shape: Shape, args: Sequence[Shape]
) -> tuple[RowMaps, list[RowMaps]]:
    """The result's variables come first in the space, in the order of its memory."""
    spec, variables = parse_spec(text, len(args)), SpecMaps(projection)
    result = variables.slot(spec.result, shape)
    return result, [variables.slot(slot, arg) for slot, arg in zip(spec.operands, args, strict=True)]


def _replace(
    op: ApplyOp | SliceOp,
    result_map: Sequence[Linear],
    arg_maps: Sequence[Sequence[Linear]],
    space: Mapping[str, int],
    accum: str | None,
) -> None:
    projected = ApplyOp(
        op.term.data if isinstance(op, ApplyOp) else Arg(0),
        tuple(op.operands),
        op.result.type,
        accum=accum,
        result_map=result_map,
        arg_maps=arg_maps,
        space=tuple(space.items()),
        stop=isinstance(op, ApplyOp) and op.stop is not None,
    )
    projected.location = op.location
    projected.result.name_hint = op.result.name_hint
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(projected, op)
    op.result.replace_all_uses_with(projected.result)
    op.detach()
    op.erase()


def project_slice(op: SliceOp, taken: set[str]) -> None:
    projection = Projection(taken)
    result = projection.result(shape_of(op.result))
    if shape_of(op.source).memory_sizes[1:] != shape_of(op.result).memory_sizes:
        raise MisfitError
    source = RowMaps([op.index, *result.batch], result.input, result.output)
    _replace(op, result.memory, [source.memory], projection.space, None)


def project_assign(op: AssignOp, taken: set[str]) -> None:
    assert op.logic is not None
    shape, value, projection = shape_of(op.target), shape_of(op.value), Projection(taken)
    if op.logic.data in (".", "T"):
        result = projection.result(shape)
        source = (pointwise if op.logic.data == "." else transpose)(result, shape, value)
    else:
        result, (source,) = _spec_maps(projection, op.logic.data, shape, [value])
    projected = AssignOp(
        op.target,
        op.value,
        accum=op.accum_name,
        reset=op.reset is not None,
        result_map=result.memory,
        value_map=source.memory,
        space=tuple(projection.space.items()),
    )
    projected.location = op.location
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(projected, op)
    op.detach()
    op.erase()


def infer_projections(routine: TexprRoutineOp) -> None:
    """Raises `OcannlError` where a shape is not final yet."""
    taken = set(routine.ranges)
    for op in list(routine.body.block.ops):
        if isinstance(op, TensorOp) and not shape_of(op.result).is_final:
            raise OcannlError(
                at_line(op, f"the shape {shape_of(op.result)} is not final: run infer-shapes first")
            )
        try:
            project(op, taken)
        except MisfitError:
            message = "the shapes do not fit the operation: run infer-shapes, which says why"
            raise OcannlError(at_line(op, message)) from None


def project(op: Operation, taken: set[str]) -> None:
    """Projects one operation, if it is not projected yet. Raises `MisfitError`."""
    if isinstance(op, SliceOp):
        project_slice(op, taken)
    elif isinstance(op, ApplyOp) and not op.is_projected:
        project_apply(op, taken)
    elif isinstance(op, AssignOp) and not op.is_projected:
        project_assign(op, taken)


@dataclass(frozen=True)
class InferProjectionsPass(ModulePass):
    """Gives every operation its iteration space and index maps in place of its logic."""

    name = "infer-projections"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                infer_projections(routine)
