"""Types of tensors as they would be inferred now, on a copy: nothing is decided."""

from __future__ import annotations

from xdsl.ir import Attribute

from ocannl.dialects.ir.errors import ShapeError, at_line
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr import ForwardOp, MemoryOp, OfOp, TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.passes.texpr.infer_shapes.terms import RowEq
from ocannl.program import graph
from ocannl.program.extract import sketch
from ocannl.program.needed import needed
from ocannl.program.values import Value, operation_of
from ocannl.runtime.locks import shared


def shape_now(value: Value) -> Shape:
    """The final shape that a value would get by what it depends on.

    Raises `ShapeError` where that does not determine it.
    """
    known = graph.known_shape(value)
    if known.is_final:
        return known
    module, copy = sketch(value, _has_final_shape)
    run_passes(module, (InferShapesPass,))
    return shape_of(copy)


def _has_final_shape(op: TensorOp) -> bool:
    return graph.known_shape(op.result).is_final


def determined_shape(value: Value) -> Shape:
    """`shape_now`, where all memory that the value depends on has a final shape: none is guessed.

    Raises `ShapeError` otherwise.
    """
    if not _has_final_shape(operation_of(value)):
        for op in needed([ForwardOp(value)], _has_final_shape):
            if isinstance(op, MemoryOp | OfOp) and not _has_final_shape(op):
                shape = graph.known_shape(op.result)
                raise ShapeError(at_line(op, f"the shape of `{tensor_name(op.result)}` is open: {shape}"))
    return shape_now(value)


def close_shape(value: Value) -> Shape:
    """Gives a value its determined shape. Raises `ShapeError`."""
    with shared:
        decided = determined_shape(value)
        solver = graph.solver()
        for known, row in zip(graph.known_shape(value), decided, strict=True):
            if known != row:
                solver.add(RowEq(known, row))
    return decided


def element_now(value: Value) -> Attribute:
    """The element type that a value would get by what it depends on."""
    known = tensor_type(value).element_or_none
    if known is not None:
        return known
    module, copy = sketch(value, lambda op: op.result.type.element_or_none is not None)
    run_passes(module, (InferPrecisionsPass,))
    return tensor_type(copy).element


def type_now(value: Value) -> TensorType:
    """`shape_now` and `element_now` as a type."""
    return TensorType.of(shape_now(value), element_now(value))
