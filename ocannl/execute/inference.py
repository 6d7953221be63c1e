"""Inference of final shapes and precisions on demand, and their return to the program under construction."""

from __future__ import annotations

from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.lowering.pipelines import run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.passes.texpr.infer_shapes.terms import RowEq
from ocannl.program import graph
from ocannl.program.code import Code
from ocannl.program.extract import ExtractedRoutine, extract
from ocannl.program.tensor import TensorLike, as_tensor
from ocannl.program.values import Value


def infer(target: TensorLike | Code) -> None:
    """Infers the final shapes and precisions of everything that a tensor or code uses.

    Raises `ShapeError` where the program does not determine them.
    """
    code = target if isinstance(target, Code) else as_tensor(target).forward
    program = extract(code.statements, code.label or "infer")
    run_passes(program.module, (InferShapesPass, InferPrecisionsPass))
    commit(program)


def commit(program: ExtractedRoutine) -> None:
    """Gives the final shapes and precisions of an extracted module to the program under construction."""
    solver = graph.solver()
    for value, copy in program.copies.items():
        written, final = tensor_type(value), tensor_type(copy)
        for row, decided in zip(written.shape.data, final.shape.data, strict=True):
            if not row.is_final and (known := solver.row(row)) != decided:
                solver.add(RowEq(known, decided))
        if written.element != final.element:
            assert isinstance(value, Value)
            value.refine(TensorType(written.shape, final.element))
