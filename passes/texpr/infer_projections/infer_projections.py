"""`infer-projections`: iteration spaces and index maps of each operation, from its logic and the final
shapes.

Two axes of equal size are iterated together only if the operation's own logic ties them. A concatenation is
several accumulations one after the other. Operands that are indexed beyond their ends are first copied with
margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.index.images import tiles
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.ir.errors import OcannlError, SpecError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.scalar import SCALAR_OPS, TRUTH_VALUES
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.precisions import computed_in, has_infinity, is_float
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Dim, Shape
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr import ApplyOp, AssignOp, TensorOp, TexprRoutineOp
from ocannl.dialects.texpr.apply import VIRTUAL
from ocannl.dialects.texpr.nested import nested
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.slices import Positions, SliceOp, id_indices, part_shape, source_row
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.passes.analysis.projection import MisfitError, Projection, RowMaps, plain_maps, pointwise, whole
from ocannl.passes.texpr.infer_projections.spec_projection import (
    Margins,
    SlotMap,
    SpecPart,
    padded_shape,
    project_spec,
)

PLAIN = (".", "@", "T")
"""The logics that are not specs."""


def project_apply(op: ApplyOp, taken: frozenset[str]) -> None:
    assert op.logic is not None
    if op.logic.data not in PLAIN:
        _project_spec_apply(op, op.logic.data, taken)
        return
    maps = plain_maps(op.logic.data, shape_of(op.result), _shapes(op.args), taken)
    parts = [Part(Combination(op.term.data, tuple(op.args), maps.args), maps.result, maps.space)]
    op.project(parts, _accumulation(op, parts, shape_of(op.result)))


def _shapes(values: Sequence[SSAValue]) -> tuple[Shape, ...]:
    return tuple([shape_of(value) for value in values])


def _accumulation(op: ApplyOp, parts: Sequence[Part], result: Shape) -> str | None:
    """The accumulation of an operation; none for parts that reach every cell of the result once."""
    accum = op.accum_name
    if accum is None or accum in TRUTH_VALUES:
        return accum
    once = tiles(((part.result_map, dict(part.space)) for part in parts), result.memory_sizes)
    return None if once else accum


def _project_spec_apply(op: ApplyOp, spec: str, taken: frozenset[str]) -> None:
    shape, element = shape_of(op.result), op.result.type.element_or_none
    found = _spec_parts(op, spec, shape, _shapes(op.args), taken)
    operands = PaddedOperands(op, op.accum_name, taken)
    parts = operands.parts(op.term.data, op.args, found)
    written = found[0].result
    if not written.is_padded:
        op.project(parts, _accumulation(op, parts, shape))
        return
    whole_type = TensorType.of(padded_shape(shape, written.margins), element)
    accum = _accumulation(op, parts, whole_type.shape.data)
    # The value is a part of what is padded, which has no memory either where the value may have none.
    mode = op.mode_name if op.mode_name == VIRTUAL else None
    padded = _insert(ApplyOp.of_parts(parts, whole_type, accum, stop=op.stop is not None, mode=mode), op)
    padded.result.name_hint = None if mode is None else op.result.name_hint
    indices, space = whole(shape.memory_sizes, taken)
    inner = Combination(Arg(0), (padded.result,), (inside(indices, written.margins),))
    _replace(op, ApplyOp.projected(inner, op.result.type, None, indices, space, mode=op.mode_name))


def _spec_parts(
    op: ApplyOp | AssignOp, spec: str, result: Shape, args: tuple[Shape, ...], taken: frozenset[str]
) -> tuple[SpecPart, ...]:
    """The parts of a spec. Raises `OcannlError` for sizes that only shape inference
    knows, and did not note.
    """
    dims = {} if op.dims is None else dict(op.dims.data)
    sizes = {name: dim.size for name, dim in dims.items() if isinstance(dim, Dim)}
    missing = parse_spec(spec, len(args)).structured_names - sizes.keys()
    if missing:
        names = ", ".join(f"`{name}`" for name in sorted(missing))
        raise OcannlError(at_line(op, f"the size of {names} is not known: run infer-shapes first"))
    return project_spec(spec, result, args, tuple(sizes.items()), taken)


def inside(indices: Sequence[Linear], margins: Margins) -> Map:
    """The indices of a tensor in its copy with margins."""
    return tuple(index + Linear((), before) for index, (before, _) in zip(indices, margins, strict=True))


# A value, the margins of its copy, and the accumulation whose neutral element fills them, or none for zeros.
PaddedCopy: TypeAlias = tuple[SSAValue, Margins, str | None]


@dataclass
class PaddedOperands:
    """Copies of one operation's operands with margins, in which indices beyond the ends of an array read a
    value that adds nothing: zero in a product, else the neutral element of the accumulation.

    So the operation itself runs without guards.
    """

    op: ApplyOp | AssignOp
    accum: str | None
    taken: frozenset[str]
    copies: dict[PaddedCopy, SSAValue] = field(default_factory=dict[PaddedCopy, SSAValue])

    def parts(self, term: Term, args: Sequence[SSAValue], spaces: Sequence[SpecPart]) -> list[Part]:
        """The accumulations of all spaces. A select that lacks an operand in a space is left out there."""
        chooses = isinstance(term, App) and term.op == "where"
        parts = [part for space in spaces if (part := self.part(term, args, space)) or not chooses]
        if not parts or None in parts:
            raise SpecError(at_line(self.op, f"an operand of `{term}` cannot be left out of a part"))
        return [part for part in parts if part is not None]

    def part(self, term: Term, args: Sequence[SSAValue], part: SpecPart) -> Part | None:
        """The accumulation of the operands that are read in a space; None if these have no meaning alone."""
        own = restrict(term, {operand: place for place, operand in enumerate(part.operands)})
        if own is None:
            return None
        operands = tuple(self.operand(args[i], slot, own) for i, slot in part.operands.items())
        maps = tuple(slot.indices for slot in part.operands.values())
        return Part(Combination(own, operands, maps), part.result.indices, part.space)

    def operand(self, value: SSAValue, slot: SlotMap, term: Term) -> SSAValue:
        if not slot.is_padded:
            return value
        neutral = None if self.accum is None or is_product(term) else SCALAR_OPS[self.accum].neutral
        key = value, slot.margins, self.accum if neutral else None
        if key not in self.copies:
            self.copies[key] = self.copy(*key)
        return self.copies[key]

    def copy(self, value: SSAValue, margins: Margins, accum: str | None) -> SSAValue:
        """A copy whose margins hold the neutral element of `accum`, or zero."""
        element = tensor_type(value).element_or_none
        if element is not None and not is_float(element):
            element = self.widest()
        elif element is not None and accum is not None and not has_infinity(element):
            element = computed_in(element)
        type = TensorType.of(padded_shape(shape_of(value), margins), element)
        indices, space = whole(shape_of(value).memory_sizes, self.taken)
        combination = Combination(Arg(0), (value,), (indices,))
        copy = ApplyOp.projected(combination, type, accum, inside(indices, margins), space)
        copy.result.name_hint = f"{value.name_hint}_padded" if value.name_hint else None
        return _insert(copy, self.op).result

    def widest(self) -> Attribute | None:
        """The element type of the result."""
        result = self.op.result if isinstance(self.op, ApplyOp) else self.op.target
        return tensor_type(result).element_or_none


def is_product(term: Term) -> bool:
    return isinstance(term, App) and (term.op == "mul" or any(map(is_product, term.args)))


def restrict(term: Term, places: Mapping[int, int]) -> Term | None:
    """The term of the operands that have a place, numbered by it; a combination of two of which one is
    missing is the other.

    None if the term has no meaning without the missing ones.
    """
    match term:
        case Arg(index):
            return Arg(places[index]) if index in places else None
        case Const():
            return term
        case App(op, args):
            own = [restrict(arg, places) for arg in args]
            left = [arg for arg in own if arg is not None]
            if len(left) == len(args):
                return App(op, tuple(left))
            combined = op in ("mul", "add") and len(left) == 1 and not isinstance(left[0], Const)
            return left[0] if combined else None


def _insert(op: ApplyOp, before: Operation) -> ApplyOp:
    op.location = before.location
    block = before.parent_block()
    assert block is not None
    block.insert_op_before(op, before)
    return op


def _replace(op: ApplyOp | SliceOp, projected: ApplyOp) -> None:
    projected.result.name_hint = op.result.name_hint
    _insert(projected, op)
    op.result.replace_all_uses_with(projected.result)
    op.detach()
    op.erase()


def project_slice(op: SliceOp, taken: frozenset[str]) -> None:
    projection = Projection(taken)
    result = projection.result(shape_of(op.result))
    indices = _in_source(shape_of(op.source), op.positions.data, result)
    combination = Combination(Arg(0), (op.source,), (indices,))
    space = tuple(projection.space.items())
    _replace(op, ApplyOp.projected(combination, op.result.type, None, result.memory, space))


def _in_source(source: Shape, positions: Positions, part: RowMaps) -> Map:
    """The indices of a tensor, given those of a part of it. Raises `MisfitError`."""
    batch, input, output = positions
    try:
        rows = RowMaps(
            source_row(batch, part.batch), source_row(input, part.input), source_row(output, part.output)
        )
    except IndexError:
        raise MisfitError from None
    if len(rows.memory) != len(source.memory_sizes):
        raise MisfitError
    return rows.memory


def project_assign(op: AssignOp, taken: frozenset[str]) -> None:
    assert op.logic is not None
    shape, value = shape_of(op.target), shape_of(op.value)
    if op.at is not None:
        _write_part(op, op.at.data, taken)
        return
    if op.logic.data in PLAIN:
        maps = plain_maps(op.logic.data, shape, (value,), taken)
        parts = [Part(Combination(Arg(0), (op.value,), maps.args), maps.result, maps.space)]
    else:
        operands = PaddedOperands(op, op.accum_name, taken)
        found = _spec_parts(op, op.logic.data, shape, (value,), taken)
        if found[0].result.is_padded:
            _add_padded(op, taken)
            return
        parts = operands.parts(Arg(0), [op.value], found)
    block = op.parent_block()
    assert block is not None
    for number, part in enumerate(parts):
        block.insert_op_before(_assign_part(op, part, op.reset is not None and number == 0), op)
    op.detach()
    op.erase()


def _write_part(op: AssignOp, at: Positions, taken: frozenset[str]) -> None:
    """Projects the assignment to a part of memory."""
    shape = part_shape(shape_of(op.target), at, _shapes(op.ids))
    projection = Projection(taken)
    result = projection.result(shape)
    rows = zip(at, (result.batch, result.input, result.output), strict=True)
    own = [index for positions, row in rows for index in id_indices(positions, row)]
    projected = AssignOp(
        op.target,
        op.value,
        accum=op.accum_name,
        ids=op.ids,
        result_map=_in_source(shape_of(op.target), at, result),
        value_map=pointwise(result, shape, shape_of(op.value)).memory,
        id_maps=[own if shape_of(ids).memory_axes else [] for ids in op.ids],
        space=tuple(projection.space.items()),
    )
    projected.location = op.location
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(projected, op)
    op.detach()
    op.erase()


def _add_padded(op: AssignOp, taken: frozenset[str]) -> None:
    """Accumulates the values written beyond the ends of memory apart from it, and cuts them off."""
    assert op.logic is not None
    dims = () if op.dims is None else op.dims.data
    type, accum = tensor_type(op.target), op.accum_name
    added = ApplyOp(Arg(0), [op.value], type, accum=accum, logic=op.logic.data, dims=dims)
    kept = AssignOp(op.target, added.result, accum=accum, reset=op.reset is not None, logic=".")
    kept.location = op.location
    block = op.parent_block()
    assert block is not None
    _insert(added, op)
    block.insert_op_before(kept, op)
    op.detach()
    op.erase()
    project_apply(added, taken)
    project_assign(kept, taken)


def _assign_part(op: AssignOp, part: Part, reset: bool) -> AssignOp:
    (value,), (value_map,) = part.combination.operands, part.combination.maps
    left_out = dict(part.space).keys() - {name for index in part.result_map for name in index.names}
    if op.accum is None and left_out:
        raise OcannlError(
            at_line(op, f"a reduction over {', '.join(sorted(left_out))} accumulates, such as by add")
        )
    projected = AssignOp(
        op.target,
        value,
        accum=op.accum_name,
        reset=reset,
        result_map=part.result_map,
        value_map=value_map,
        space=part.space,
    )
    projected.location = op.location
    return projected


def infer_projections(routine: TexprRoutineOp) -> None:
    """Raises `OcannlError` where a shape is not final yet."""
    for op in [*nested(routine.body.block)]:
        taken = frozenset(static_ranges(op) or ())
        if isinstance(op, TensorOp) and not shape_of(op.result).is_final:
            raise OcannlError(
                at_line(op, f"the shape {shape_of(op.result)} is not final: run infer-shapes first")
            )
        try:
            project(op, taken)
        except MisfitError:
            message = "the shapes do not fit the operation: run infer-shapes, which says why"
            raise OcannlError(at_line(op, message)) from None


def project(op: Operation, taken: frozenset[str]) -> None:
    """Projects one operation, if it is not projected yet. Raises `MisfitError`."""
    if isinstance(op, SliceOp):
        project_slice(op, taken)
    elif isinstance(op, ApplyOp) and not op.is_projected:
        project_apply(op, taken)
    elif isinstance(op, AssignOp) and not op.is_projected:
        project_assign(op, taken)


@dataclass(frozen=True)
class InferProjectionsPass(ModulePass):
    """Gives every operation an iteration space and affine index maps in place of its logic, as those of
    `linalg.generic` in MLIR.
    """

    name = "infer-projections"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                infer_projections(routine)
