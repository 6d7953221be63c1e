"""The functions that reduce large angles."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from ocannl.dialects.scalar.far_angle_op import NEAR, FarAngleOp
from ocannl.lowering.kernels_to_metal.scalar import expression
from ocannl.lowering.kernels_to_metal.types import literal, metal_type
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.far_angle import far_angle


def far_angle_expression(op: FarAngleOp, angle: str, near: str) -> str:
    return f"fabs({angle}) > {NEAR[32]}f ? {far_name(cosine=op.cosine is not None)}({angle}) : {near}"


def far_name(*, cosine: bool) -> str:
    return "far_cosine" if cosine else "far_sine"


def far_function(*, cosine: bool) -> str:
    return "\n".join([f"inline float {far_name(cosine=cosine)}(float x) {{", *function_lines(cosine), "}"])


def function_lines(cosine: bool) -> Iterator[str]:
    block, b = Block(arg_types=[f32]), MathBuilder(f32)
    result = far_angle(b, block.args[0], cosine=cosine)
    values: dict[SSAValue, str] = {block.args[0]: "x"}
    for number, op in enumerate(b.ops):
        if isinstance(op, arith.ConstantOp):
            values[op.result] = literal(op.value)
            continue
        value, name = op.results[0], f"x{number}"
        operands = [values[operand] for operand in op.operands]
        yield f"  const {metal_type(value.type)} {name} = {expression(op, operands)};"
        values[value] = name
    yield f"  return {values[result]};"
