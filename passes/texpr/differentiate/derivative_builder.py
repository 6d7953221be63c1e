"""Builds the expressions of which derivatives consist, in front of an operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.index.images import covers
from ocannl.dialects.index.linear import Map, Space
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.origins import union
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.precisions import float_or
from ocannl.dialects.scalar.terms import App, Arg, Term
from ocannl.dialects.shapes.shape import ROW_KINDS
from ocannl.dialects.texpr import ApplyOp, ConstantOp, GradOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.passes.analysis.projection import MisfitError, Projection, RowMaps, pointwise

OpT = TypeVar("OpT", bound=Operation)


def gradient_element(value: SSAValue) -> Attribute:
    """Gradients of floats have their precision, those of integers are f32."""
    return float_or(tensor_type(value).element)


def gradient_type(value: SSAValue) -> TensorType:
    return TensorType(tensor_type(value).shape, gradient_element(value))


def adjoint_type(value: SSAValue) -> TensorType:
    """That of the gradient's node, where the program has one, which may be of another precision."""
    nodes = [use.operation for use in value.uses if isinstance(use.operation, GradOp)]
    return tensor_type(nodes[0].result) if nodes else gradient_type(value)


def parts_of(op: ApplyOp) -> tuple[Part, ...]:
    """The accumulations of an operation with index maps. Raises `OcannlError` for one without."""
    if not op.is_projected:
        raise OcannlError(at_line(op, "an operation has no index maps yet: run infer-projections first"))
    return op.parts


def insert(op: OpT, before: Operation, *sources: SSAValue | Operation) -> OpT:
    """Puts an operation before another, from which it comes, as from those whose derivative it is."""
    block = before.parent_block()
    assert block is not None
    owners = [source.owner if isinstance(source, SSAValue) else source for source in sources]
    known = [owner.location for owner in owners if isinstance(owner, Operation)]
    op.location = union(*known, before.location)
    block.insert_op_before(op, before)
    return op


def _axes(value: SSAValue, at: Operation) -> tuple[RowMaps, Space]:
    """One variable an axis of a tensor, and their space; the routine's static indices keep their names."""
    projection = Projection(set(static_ranges(at) or ()))
    return projection.result(shape_of(value)), tuple(projection.space.items())


def identity(value: SSAValue, at: Operation) -> tuple[Map, Space]:
    """The map from a space of a tensor's axes to its cells, and that space."""
    maps, space = _axes(value, at)
    return maps.memory, space


def constant(value: float, type: TensorType, before: Operation) -> SSAValue:
    return insert(ConstantOp(value, type), before).result


def combined(term: Term, operands: Sequence[SSAValue], type: TensorType, before: Operation) -> SSAValue:
    """A pointwise term over tensors of one shape."""
    indices, space = identity(operands[0], before)
    combination = Combination.of(term, operands, [indices] * len(operands))
    return insert(ApplyOp.projected(combination, type, None, indices, space), before, *operands).result


def sum_of(values: Iterable[SSAValue], before: Operation) -> SSAValue:
    first, *others = values
    for other in others:
        first = combined(App("add", (Arg(0), Arg(1))), [first, other], tensor_type(first), before)
    return first


def _same_rows(left: SSAValue, right: SSAValue) -> bool:
    return all(shape_of(left).row(kind).sizes == shape_of(right).row(kind).sizes for kind in ROW_KINDS)


def broadcast_to(value: SSAValue, like: SSAValue, before: Operation) -> SSAValue:
    """A value at the shape of another, in its gradient's precision. Raises `OcannlError` for a misfit."""
    type = gradient_type(like)
    if _same_rows(value, like) and tensor_type(value).element == type.element:
        return value
    (result, operand), space = _pair(like, value, before)
    combination = Combination(Arg(0), (value,), (operand,))
    return insert(ApplyOp.projected(combination, type, None, result, space), before, value).result


def sum_to(value: SSAValue, like: SSAValue, before: Operation) -> SSAValue:
    """The sum of a value over the axes that `like` is broadcast along, in the precision of its gradient."""
    type = adjoint_type(like)
    if _same_rows(value, like) and tensor_type(value).element == type.element:
        return value
    (operand, result), space = _pair(value, like, before)
    combination = Combination(Arg(0), (value,), (operand,))
    accum = None if covers(result, dict(space), shape_of(like).memory_sizes) else "add"
    return insert(ApplyOp.projected(combination, type, accum, result, space), before, value).result


def _pair(larger: SSAValue, smaller: SSAValue, at: Operation) -> tuple[tuple[Map, Map], Space]:
    """Maps from a space of the larger one's axes to both."""
    maps, space = _axes(larger, at)
    try:
        inner = pointwise(maps, shape_of(larger), shape_of(smaller))
    except MisfitError:
        message = "the shapes do not fit the operation: run infer-shapes, which says why"
        raise OcannlError(at_line(at, message)) from None
    return (maps.memory, inner.memory), space
