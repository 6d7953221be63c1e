"""The functions of operands that are rare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ocannl.dialects.scalar.far_op import FarOp
from ocannl.lowering.kernels_to_metal.scalar import expression
from ocannl.lowering.kernels_to_metal.types import literal, metal_type
from ocannl.passes.loops.expand_math.far import Formula, formula


def far_expression(op: FarOp, operands: Sequence[str]) -> str:
    is_far, *arguments, near = operands
    return f"{is_far} ? {far_name(op.function.data)}({', '.join(arguments)}) : {near}"


def far_name(function: str) -> str:
    return f"far_{function}"


def far_function(function: str) -> str:
    made = formula(function, f32)
    names = ["x", "y"][: len(made.arguments)]
    parameters = ", ".join([f"float {name}" for name in names])
    return "\n".join(
        [f"inline float {far_name(function)}({parameters}) {{", *function_lines(made, names), "}"]
    )


def function_lines(made: Formula, names: Sequence[str]) -> Iterator[str]:
    values: dict[SSAValue, str] = dict(zip(made.arguments, names, strict=True))
    for number, op in enumerate(made.ops):
        if isinstance(op, arith.ConstantOp):
            values[op.result] = literal(op.value)
            continue
        value, name = op.results[0], f"x{number}"
        operands = [values[operand] for operand in op.operands]
        yield f"  const {metal_type(value.type)} {name} = {expression(op, operands)};"
        values[value] = name
    yield f"  return {values[made.result]};"
