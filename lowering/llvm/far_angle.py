"""Large angles: where one of a vector is far, which is rare, a function reduces it."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Block, SSAValue

from ocannl.dialects.scalar.far_angle_op import NEAR, FarAngleOp
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import call, emit_formula, scalar_literal
from ocannl.lowering.llvm.machine import Machine
from ocannl.lowering.llvm.types import ValueType, value_type, vector
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.far_angle import far_angle

RARE = "noinline cold nounwind"


def emit_far_angle(b: FunctionBuilder, op: FarAngleOp, angle: str, near: str, type: ValueType) -> str:
    """The value of the operation: `near`, but for the angles that are far."""
    size = call(b, "fabs", [angle], type)
    limit = scalar_literal(NEAR[8 * type.bytes], type)
    found = b.emit(f"fcmp ogt {type.text} {size}, {limit}")
    if type.width:
        found = b.emit(f"call i1 @llvm.vector.reduce.or.v{type.width}i1(<{type.width} x i1> {found})")
    name, functions = far_functions(type, op.cosine is not None, b.machine.fuses)
    b.declarations |= functions
    before, branch = b.block, b.open_branch(found)
    arguments = f"{type.text} {angle}" + (f", {type.text} {near}" if type.width else "")
    reduced = b.emit(f"call {type.text} {name}({arguments})")
    inside = b.block
    b.close_branch(branch)
    return b.emit(f"phi {type.text} [ {near}, %{before} ], [ {reduced}, %{inside} ]")


@cache
def far_functions(type: ValueType, cosine: bool, fuses: bool) -> tuple[str, frozenset[str]]:
    """The name of the function for a type, and the texts of all functions that it needs."""
    name, functions = scalar_function(type.code, cosine, fuses)
    if not type.width:
        return name, functions
    wide, text = of_lanes(type, name)
    return wide, functions | {text}


@cache
def scalar_function(code: str, cosine: bool, fuses: bool) -> tuple[str, frozenset[str]]:
    """The function for one angle, which is far. No kernel of a GPU has its name, which PTX allows."""
    float_type = f32 if code == "f32" else f64
    block, made = Block(arg_types=[float_type]), MathBuilder(float_type)
    result = far_angle(made, block.args[0], cosine=cosine)
    b = FunctionBuilder(Machine(fuses=fuses))
    values: dict[SSAValue, str] = {block.args[0]: "%x"}
    emit_formula(b, made.ops, values)
    type = value_type(float_type).text
    name = f"@far${'cosine' if cosine else 'sine'}${code}"
    body = f"{b.text()}\n  ret {type} {values[result]}"
    return name, frozenset(b.declarations) | {
        f"define internal {type} {name}({type} %x) {RARE} {{\n{body}\n}}"
    }


def of_lanes(type: ValueType, function: str) -> tuple[str, str]:
    """The function of a vector of angles that calls another one for those that are far."""
    name, wide, element = f"{function}_{type.width}", type.text, type.element
    limit = scalar_literal(NEAR[8 * type.bytes], vector(type, 0))
    text = f"""\
define internal {wide} {name}({wide} %x, {wide} %near) {RARE} {{
entry:
  br label %loop
loop:
  %lane = phi i64 [ 0, %entry ], [ %next, %done ]
  %found = phi {wide} [ %near, %entry ], [ %result, %done ]
  %angle = extractelement {wide} %x, i64 %lane
  %size = call {element} @llvm.fabs.{type.code}({element} %angle)
  %is.far = fcmp ogt {element} %size, {limit}
  br i1 %is.far, label %far, label %done
far:
  %reduced = call {element} {function}({element} %angle)
  %changed = insertelement {wide} %found, {element} %reduced, i64 %lane
  br label %done
done:
  %result = phi {wide} [ %found, %loop ], [ %changed, %far ]
  %next = add nuw nsw i64 %lane, 1
  %more = icmp ult i64 %next, {type.width}
  br i1 %more, label %loop, label %end
end:
  ret {wide} %result
}}"""
    return name, text
