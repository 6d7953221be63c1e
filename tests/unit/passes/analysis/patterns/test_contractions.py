"""Which reductions are products of matrices, and along which variables."""

from __future__ import annotations

import pytest
from support.nests import parse_module, the_func

from ocannl.dialects.loops import ReduceOp
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.patterns.contractions import as_contraction


def found_in(
    sizes: tuple[int, int] = (32, 64),
    reduced: str = "k = 16",
    x: str = "b, k",
    w: str = "o, k",
    y: str = "b, o",
    inside: str = "",
) -> tuple[str, str, str, list[str]] | None:
    """The row, the column and the reduced variable of a contraction, and its operands in order."""
    shapes = {name: "x".join(["64"] * len(axes.split(", "))) for name, axes in (("x", x), ("w", w), ("y", y))}
    nodes = "\n".join(f'%{n} = assign.node "{n}" on_device : memref<{s}xf32>' for n, s in shapes.items())
    module = parse_module(f"""
loops.func @f {{
  {nodes}
  loops.nest "y" (b = {sizes[0]}, o = {sizes[1]}) {{
    %sum = loops.reduce add ({reduced}) : f32 {{
      %xv = loops.load %x[{x}]
      %wv = loops.load %w[{w}]
      %p = arith.mulf %xv, %wv : f32
      {inside or "loops.yield %p"}
    }}
    loops.store %sum, %y[{y}]
  }}
}}
""")
    (nest,) = nests(the_func(module))
    reduce = next(op for op in nest.body.block.ops if isinstance(op, ReduceOp))
    found = as_contraction(nest, reduce)
    if found is None:
        return None
    return found.row, found.column, found.k, [str(load.node.name_hint) for load in (found.left, found.right)]


def test_the_columns_are_contiguous_in_the_result():
    assert found_in() == ("b", "o", "k", ["x", "w"])
    assert found_in(y="o, b") == ("o", "b", "k", ["w", "x"])
    assert found_in(x="k, b", w="k, o") == ("b", "o", "k", ["x", "w"])


def test_what_is_reduced_is_in_both_operands():
    """The largest of these variables; one that a single operand has is none, however large."""
    assert found_in(reduced="k = 16, l = 32", x="b, k, l", w="o, k, l") == ("b", "o", "l", ["x", "w"])
    assert found_in(reduced="k = 16, l = 32", x="b, k, l") == ("b", "o", "k", ["x", "w"])
    assert found_in(reduced="k = 16", x="b, k", w="o, o") is None


@pytest.mark.parametrize(("sizes", "reduced"), [((15, 64), 16), ((64, 15), 16), ((16, 16), 7)])
def test_small_ones_are_none(sizes: tuple[int, int], reduced: int):
    assert found_in(sizes, f"k = {reduced}") is None
    assert found_in((16, 16), "k = 8") is not None


def test_each_operand_has_an_axis_of_its_own():
    assert found_in(w="b, k") is None
    assert found_in(x="b, o, k") is None


def test_other_values_from_outside_or_of_the_point():
    assert (
        found_in(inside="%c = arith.constant 2.0 : f32\n %q = arith.mulf %p, %c : f32\n loops.yield %q")
        is not None
    )
    assert found_in(inside="%c = loops.index k : f32\n %q = arith.mulf %p, %c : f32\n loops.yield %q") is None
    assert found_in(inside="%c = loops.load %x[b, k]\n %q = arith.mulf %p, %c : f32\n loops.yield %q") is None
