"""Functions of operands that are rare: called where one of a vector is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.instructions import emit_formula
from ocannl.lowering.llvm.machine import Machine
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.passes.loops.expand_math.far import formula

RARE = "noinline cold nounwind"
# Those that need what vectors lack, products of whole numbers: computed only in the lanes that are far.
BY_LANES = frozenset({"sine", "cosine"})


def emit_far(b: FunctionBuilder, function: str, operands: Sequence[str], type: ValueType) -> str:
    """The value of the operation: `near`, its last operand, where its first does not hold."""
    is_far, *arguments, near = operands
    found = is_far
    if type.width:
        found = b.emit(f"call i1 @llvm.vector.reduce.or.v{type.width}i1({truths(type)} {is_far})")
    name, functions = far_functions(function, type, b.machine.fuses)
    b.declarations |= functions
    before, branch = b.block, b.open_branch(found)
    passed = [f"{type.text} {argument}" for argument in arguments]
    if type.width and function in BY_LANES:
        passed += [f"{truths(type)} {is_far}", f"{type.text} {near}"]
    result = b.emit(f"call {type.text} {name}({', '.join(passed)})")
    inside = b.block
    b.close_branch(branch)
    return b.emit(f"phi {type.text} [ {near}, %{before} ], [ {result}, %{inside} ]")


def truths(type: ValueType) -> str:
    return f"<{type.width} x i1>"


@cache
def far_functions(function: str, type: ValueType, fuses: bool) -> tuple[str, frozenset[str]]:
    """The name of a function for a type, and the texts of all functions that it needs."""
    if not type.width or function not in BY_LANES:
        return formula_function(function, type, fuses)
    name, functions = formula_function(function, vector(type, 0), fuses)
    wide, text = of_lanes(type, name)
    return wide, functions | {text}


def formula_function(function: str, type: ValueType, fuses: bool) -> tuple[str, frozenset[str]]:
    """The function for one type. No kernel of a GPU has its name, which PTX allows."""
    made = formula(function, f32 if type.code == "f32" else f64)
    b = FunctionBuilder(Machine(fuses=fuses))
    values: dict[SSAValue, str] = {x: f"%x{i}" for i, x in enumerate(made.arguments)}
    parameters = ", ".join([f"{type.text} {values[x]}" for x in made.arguments])
    emit_formula(b, made.ops, values, type.width)
    name = f"@far${function}{type.mangled}"
    body = f"{b.text()}\n  ret {type.text} {values[made.result]}"
    return name, frozenset(b.declarations) | {
        f"define internal {type.text} {name}({parameters}) {RARE} {{\n{body}\n}}"
    }


def of_lanes(type: ValueType, function: str) -> tuple[str, str]:
    """The function of a vector that calls another one for those lanes that are far."""
    name, wide, element = f"{function}_{type.width}", type.text, type.element
    text = f"""\
define internal {wide} {name}({wide} %x, {truths(type)} %far, {wide} %near) {RARE} {{
entry:
  br label %loop
loop:
  %lane = phi i64 [ 0, %entry ], [ %next, %done ]
  %found = phi {wide} [ %near, %entry ], [ %result, %done ]
  %is.far = extractelement {truths(type)} %far, i64 %lane
  br i1 %is.far, label %far.lane, label %done
far.lane:
  %number = extractelement {wide} %x, i64 %lane
  %value = call {element} {function}({element} %number)
  %changed = insertelement {wide} %found, {element} %value, i64 %lane
  br label %done
done:
  %result = phi {wide} [ %found, %loop ], [ %changed, %far.lane ]
  %next = add nuw nsw i64 %lane, 1
  %more = icmp ult i64 %next, {type.width}
  br i1 %more, label %loop, label %end
end:
  ret {wide} %result
}}"""
    return name, text
