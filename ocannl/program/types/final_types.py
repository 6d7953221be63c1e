"""Types of tensors as they would be inferred now, on a copy: nothing is decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from ocannl.dialects.ir.errors import ShapeError, at_line
from ocannl.dialects.shapes.shape import ROW_KINDS, Shape
from ocannl.dialects.texpr import TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.passes.texpr.infer_shapes.terms import RowEq
from ocannl.program import graph
from ocannl.program.module.extract import Ends, sketch, sketch_of
from ocannl.program.module.needed import needed_for
from ocannl.program.module.structure import inferred_before, keep_inferred, structure_of
from ocannl.program.values import Value, is_memory, value_of, values_of
from ocannl.runtime.locks import shared


def shape_now(value: Value) -> Shape:
    """The final shape that a value would get by what it depends on.

    Raises `ShapeError` where that does not determine it.
    """
    return _shapes_now([value])[value]


def _shapes_now(values: Iterable[Value]) -> dict[Value, Shape]:
    """`shape_now` of several values, by one inference."""
    shapes = {value: graph.known_shape(value) for value in values}
    inferred = [value for value, shape in shapes.items() if not shape.is_final]
    if inferred:
        types = _types_there(inferred, _has_final_shape, InferShapesPass)
        shapes |= {value: type.shape.data for value, type in zip(inferred, types, strict=True)}
    return shapes


def _has_final_shape(op: TensorOp) -> bool:
    return graph.known_shape(value_of(op)).is_final


def what_is_open(name: str, shape: Shape) -> str:
    """The words for a shape of which not all is known."""
    open_rows = [kind for kind in ROW_KINDS if not shape.row(kind).is_final]
    return f"the {' and '.join(open_rows)} axes of `{name}` are not known: {shape}"


def determined_shape(value: Value) -> Shape:
    """`shape_now`, where all memory that the value depends on has a final shape: none is guessed.

    Raises `ShapeError` otherwise.
    """
    for op in _open([value]):
        if is_memory(op.result):
            raise ShapeError(at_line(op, what_is_open(tensor_name(op.result), graph.known_shape(op.result))))
    return shape_now(value)


def demanded_shape(value: Value) -> Shape:
    """The final shape of a value that something needs while the program is being built: of an expression the
    one that it would get by what it depends on, of memory one that its uses have determined.

    Raises `ShapeError` where there is none.
    """
    return determined_shape(value) if is_memory(value) else shape_now(value)


def _open(values: Iterable[Value]) -> dict[TensorOp, None]:
    """Memory of an open shape that values depend on, and what depends on that, operands first."""
    found: dict[TensorOp, None] = {}
    unsettled = [value for value in values if not graph.known_shape(value).is_final]
    for op in needed_for(unsettled, _has_final_shape):
        is_open = is_memory(op.result) or any(operand.op in found for operand in values_of(op))
        if is_open and not _has_final_shape(op):
            found[op] = None
    return found


def known_types(values: Sequence[Value]) -> dict[Value, tuple[Shape, Attribute]]:
    """The determined shapes of values, or what is known of those that are open, and their element types; all
    as one program would have them.
    """
    undetermined = _open(values)
    shapes = {value: graph.known_shape(value) for value in values}
    with suppress(ShapeError):  # Then what is known is all there is to show.
        shapes |= _shapes_now([value for value in values if value.op not in undetermined])
    elements = _elements_now(values)
    return {value: (shapes[value], elements[value]) for value in values}


def close_shape(value: Value) -> Shape:
    """Gives a value its demanded shape. Raises `ShapeError`."""
    with shared:
        decided = demanded_shape(value)
        solver = graph.solver()
        for known, row in zip(graph.known_shape(value), decided, strict=True):
            if known != row:
                solver.add(RowEq(known, row))
    return decided


def element_now(value: Value) -> Attribute:
    """The element type that a value would get by what it depends on."""
    return _elements_now([value])[value]


def _elements_now(values: Iterable[Value]) -> dict[Value, Attribute]:
    """`element_now` of several values, by one inference."""
    elements: dict[Value, Attribute] = {}
    inferred: list[Value] = []
    for value in values:
        if (known := value.type.element_or_none) is None:
            inferred.append(value)
        else:
            elements[value] = known
    if inferred:
        types = _types_there(inferred, _has_element, InferPrecisionsPass)
        elements |= {value: type.element for value, type in zip(inferred, types, strict=True)}
    return elements


def _has_element(op: TensorOp) -> bool:
    return value_of(op).type.element_or_none is not None


def _types_there(values: Sequence[Value], ends: Ends, made: type[ModulePass]) -> list[TensorType]:
    """The types that a pass infers for values, which are computed from those operations that are `ends`."""
    with shared:
        part = sketch_of(values, ends)
        structure = structure_of(part, (made,))
        known = inferred_before(structure)
        if known is not None:
            types = dict(zip(map(value_of, part.ops), known, strict=True))
            return [types[value] for value in values]
        module, copies = sketch(part)
    run_passes(module, (made,))
    keep_inferred(structure, [*map(tensor_type, copies.values())])
    return [tensor_type(copies[value]) for value in values]


def type_now(value: Value) -> TensorType:
    """`shape_now` and `element_now` as a type."""
    return TensorType.of(shape_now(value), element_now(value))
