"""The cost of a function is the length of its expansion."""

from __future__ import annotations

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.dialects.math import Atan2Op, PowFOp
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Operation

from ocannl.dialects.loops import UniformOp
from ocannl.dialects.scalar.far_op import FarOp
from ocannl.dialects.scalar.remainder_op import RemainderOp
from ocannl.dialects.scalar.streams import Stream
from ocannl.passes.analysis.costs.cost import INSTRUCTIONS, instructions
from ocannl.passes.loops.expand_math import EXPANSIONS
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.uniform import uniform


def length(b: MathBuilder) -> int:
    operations = [op for op in b.ops if not isinstance(op, ConstantOp)]
    return sum(INSTRUCTIONS[FarOp] if isinstance(op, FarOp) else 1 for op in operations)


@pytest.mark.parametrize("kind", EXPANSIONS)
def test_functions_cost_their_expansion(kind: type[Operation]):
    b = MathBuilder(f32, constants={})
    operands = AnyOp(result_types=[f32, f32]).results[: 2 if kind in (Atan2Op, PowFOp, RemainderOp) else 1]
    EXPANSIONS[kind](b, *operands)
    assert length(b) == INSTRUCTIONS[kind]


def test_a_random_number_costs_its_expansion():
    place, counter = AnyOp(result_types=[i32, i64]).results
    op, b = UniformOp(Stream("a key", False), place, counter, f32), MathBuilder(f32, constants={})
    uniform(b, op, {})
    assert length(b) == INSTRUCTIONS[UniformOp] == instructions(op)
