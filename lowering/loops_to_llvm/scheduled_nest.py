"""Emits nests by what they do: on vectors, on a matrix unit, or as copies of words."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from ocannl.dialects.loops import NestOp
from ocannl.dialects.loops.dot_instructions import DOT_INSTRUCTIONS
from ocannl.lowering.loops_to_llvm.dot_vectors import DotVectorEmitter
from ocannl.lowering.loops_to_llvm.environment import Environment
from ocannl.lowering.loops_to_llvm.matrix_unit import MatrixUnitEmitter
from ocannl.lowering.loops_to_llvm.nest import NestEmitter
from ocannl.lowering.loops_to_llvm.wide_copy import WideCopyEmitter, moving_together


def emit_nest(env: Environment, nest: NestOp, ahead: Mapping[Operation, int] | None = None) -> None:
    """Emits a nest. A checked one has single accesses, each of which is checked."""
    if env.b.checks:
        NestEmitter(env, nest, ahead).emit()
    elif nest.schedule is not None and nest.schedule.data.dot:
        on_tiles = any(dot.on_tiles for dot in DOT_INSTRUCTIONS if dot.name == nest.schedule.data.dot)
        kind = MatrixUnitEmitter if on_tiles else DotVectorEmitter
        kind(env, nest).emit()
    elif moving_together(nest) is not None:
        WideCopyEmitter(env, nest).emit()
    else:
        NestEmitter(env, nest, ahead).emit()
