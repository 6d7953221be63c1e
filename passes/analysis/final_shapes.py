"""A check that shapes are final, for passes that run after `infer-shapes`."""

from __future__ import annotations

from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.texpr.tensor_type import shape_of


def check_shapes(op: Operation) -> None:
    """Raises `OcannlError` unless the shapes of all operands and results are final."""
    for shape in map(shape_of, (*op.operands, *op.results)):
        if not shape.is_final:
            raise OcannlError(at_line(op, f"the shape {shape} is not final: run infer-shapes first"))
