"""Inference of final shapes and precisions on demand, and their return to the program under construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdsl.ir import SSAValue

from ocannl.dialects.ir.errors import ShapeError, at_line
from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr import MemoryOp, OfOp, ScanOp, TensorOp
from ocannl.dialects.texpr.apply import is_literal
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.passes.texpr.infer_shapes.terms import RowEq
from ocannl.program import graph
from ocannl.program.code import Code, computing
from ocannl.program.module.extract import ExtractedRoutine, extract_part, part_of
from ocannl.program.module.needed import needed_for
from ocannl.program.module.structure import inferred_before, keep_inferred, structure_of
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.reductions import without_elements
from ocannl.program.values import Value, operation_of, value_of
from ocannl.runtime.locks import shared

T = TypeVar("T")
PASSES = (InferShapesPass, InferPrecisionsPass)


class Outdated(Exception):
    """Another thread has decided otherwise since a program was extracted."""


def infer(target: TensorLike | Code) -> None:
    """Infers the final shapes and precisions of everything that a tensor or code uses.

    Raises `ShapeError` where the program does not determine them.
    """
    code = target if isinstance(target, Code) else computing(as_tensor(target).ir_value)

    def decide() -> None:
        with shared:
            part = part_of(code.statements, _is_settled)
            structure = structure_of(part, PASSES)
            known = inferred_before(structure)
            if known is not None:
                commit_types([*zip(map(value_of, part.ops), known, strict=True)])
                return
            program = extract_part(part, code.label or "infer")
        run_passes(program.module, PASSES)
        commit(program)
        keep_inferred(structure, [*map(tensor_type, program.copies.values())])

    decided(decide)


def _is_settled(op: TensorOp) -> bool:
    return not isinstance(op, MemoryOp | OfOp | ScanOp | ResultOp) and value_of(op).is_settled


def is_in_cell(tensor: Tensor) -> bool:
    """Whether a tensor has a value only inside of the cell of a scan."""
    ops = needed_for([tensor.ir_value], _is_settled)
    return any(isinstance(op, ArgumentOp) for op in ops)


def decided(decide: Callable[[], T]) -> T:
    """The result of extracting a program, inferring its types and committing them; alone the second time, if
    they were outdated. Raises `ShapeError` where they do not fit then either.
    """
    try:
        return decide()
    except Outdated:
        pass
    with shared:
        try:
            return decide()
        except Outdated as error:
            raise ShapeError(f"these shapes do not fit others that are known: {error}") from error


def commit(program: ExtractedRoutine) -> None:
    """Gives the final shapes and precisions of an extracted module to the program under construction.

    Raises `Outdated`, and changes nothing, if other ones are known there; so does `ShapeError` for an extreme
    of nothing.
    """
    with shared:
        check_elements(program)
        commit_types([(value, tensor_type(copy)) for value, copy in program.copies.items()])


def commit_types(inferred: Sequence[tuple[SSAValue, TensorType]]) -> None:
    """`commit` of the types of values."""
    with shared:
        types = [(value, tensor_type(value), final) for value, final in inferred]
        if any(written.element_or_none not in (None, final.element) for _, written, final in types):
            raise Outdated("another dtype was decided")
        _commit_shapes([(value, written.shape.data, final.shape.data) for value, written, final in types])
        for value, written, final in types:
            if written.element_or_none is None and not is_literal(operation_of(value)):
                assert isinstance(value, Value)
                value.refine(TensorType.of(written.shape.data, final.element_or_none))
        for value, final in inferred:
            if isinstance(value, Value):
                value.final_shape = final.shape.data
                value.is_settled = not is_literal(value.op)


def check_elements(program: ExtractedRoutine) -> None:
    """Raises `ShapeError` for a value that has elements although what it is an extreme of has none."""
    for op, copy in program.extremes:
        source, result = operands_of(copy)[0], copy.results[0]
        if 0 in shape_of(source).memory_sizes and 0 not in shape_of(result).memory_sizes:
            raise ShapeError(at_line(op, without_elements(op) or ""))


def _commit_shapes(types: Sequence[tuple[SSAValue, Shape, Shape]]) -> None:
    """Tells the solver the final shape of each shape as it was written; none of them, if it raises."""
    solver = graph.solver()
    decided = [
        RowEq(known, end)
        for value, written, final in types
        if not (isinstance(value, Value) and value.final_shape == final)
        for row, end in zip(written, final, strict=True)
        if not row.is_final and (known := solver.row(row)) != end
    ]
    try:
        solver.add_together(decided)
    except ShapeInferenceError as error:
        raise Outdated(str(error)) from error
