"""Projection by itself: operations stay the same ones, and what was found for others changes nothing."""

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from ocannl.dialects.texpr import TEXPR, ApplyOp, TexprRoutineOp
from ocannl.passes.texpr.infer_projections.infer_projections import InferProjectionsPass

LAYER = """
  %x = texpr.data "x" : !texpr.tensor<10 | 2, f32>
  %w = texpr.param "w" : !texpr.tensor<2 -> 16, f32>
  %p = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 16, f32>
  %q = texpr.apply = neg(%p) logic "." : !texpr.tensor<10 | 16, f32>
  %s = texpr.apply add= %q logic "...|... => 0" : !texpr.tensor<1, f32>
  texpr.forward %s
"""
"""The static index of the first routine has the name that a variable would have."""
TWICE = (
    f"texpr.routine @indexed indices (b = 80) {{{LAYER}}}\ntexpr.routine @plain {{{LAYER}}}",
    f"texpr.routine @plain {{{LAYER}}}\ntexpr.routine @indexed indices (b = 80) {{{LAYER}}}",
)


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, TEXPR):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def projected(text: str) -> dict[str, str]:
    """The text of each routine."""
    module = parse(text)
    InferProjectionsPass().apply(Context(), module)
    routines = [op for op in module.body.block.ops if isinstance(op, TexprRoutineOp)]
    return {routine.sym_name.data: str(routine) for routine in routines}


def test_an_operation_keeps_its_value():
    module = parse(f"texpr.routine @plain {{{LAYER}}}")
    before = [op for op in module.walk() if isinstance(op, ApplyOp)]
    InferProjectionsPass().apply(Context(), module)
    after = [op for op in module.walk() if isinstance(op, ApplyOp)]
    assert len(after) == 3
    assert all(old is new and new.is_projected for old, new in zip(before, after, strict=True))
    module.verify()


def test_names_depend_on_the_routine_only():
    first, second = map(projected, TWICE)
    assert first == second
    assert "over (b1 = 10, o = 16, k = 2)" in first["indexed"]
    assert "over (b = 10, o = 16, k = 2)" in first["plain"]
