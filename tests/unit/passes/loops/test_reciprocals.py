"""Divisions by the sum of a row, which each score of a later group has, are products with its reciprocal."""

from __future__ import annotations

from support.nests import parse_module
from xdsl.dialects import arith

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.passes.analysis.nests import functions, nests, nodes, steps
from ocannl.passes.loops.online_softmax.reciprocals import keep_reciprocals

TEXT = """
loops.func @weights {
  %sum = assign.node "sum" local because "intermediate value" : memref<8xTYPE>
  %x = assign.node "x" on_device because "data" : memref<8x16xTYPE>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x16xTYPE>
  loops.nest "sum" (i = 8) {
    %0 = loops.reduce add (j = 16) : TYPE {
      %1 = loops.load %x[i, j]
      loops.yield %1
    }
    loops.store %0, %sum[i]
  }
  loops.group "y" (block = 2) {
    loops.nest "y" (i = 4, j = 16) {
      %0 = loops.load %x[i + 4*block, j]
      %1 = loops.load %sum[i + 4*block]
      %2 = arith.divf %0, %1 : TYPE
      loops.store %2, %y[i + 4*block, j]
    }
  }
}
"""


def kept(type: str) -> tuple[list[str], int, int]:
    """The nodes, and how many divisions are in nests and in the group, once reciprocals are kept."""
    module = parse_module(TEXT.replace("TYPE", type))
    (func,) = functions(module)
    (group,) = (step for step in steps(func) if isinstance(step, GroupOp))
    keep_reciprocals(func, nests(func)[:1], [group])
    module.verify()
    alone = sum(divisions(step) for step in steps(func) if isinstance(step, NestOp))
    return [node.label.data for node in nodes(func)], alone, divisions(group)


def divisions(step: NestOp | GroupOp) -> int:
    return sum(isinstance(op, arith.DivfOp) for op in step.walk())


def test_kept():
    assert kept("f32") == (["sum", "x", "y", "sum.reciprocal"], 1, 0)


def test_other_types():
    assert kept("f64") == (["sum", "x", "y"], 0, 1)
