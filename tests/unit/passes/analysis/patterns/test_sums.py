"""Which sums of floats are products of matrices and vectors."""

from __future__ import annotations

import pytest
from support.nests import parse_module, the_func

from ocannl.dialects.loops import ReduceOp
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.patterns.sums import is_product

PRODUCT = "%r = arith.mulf %xv, %wv : f32"


def is_a_product(x: str, w: str, y: str, body: str = PRODUCT) -> bool:
    """Whether the sum along `k` of a body of the loads of `x` and `w` is a product."""
    shapes = {name: "x".join(["64"] * len(axes.split(", "))) for name, axes in (("x", x), ("w", w), ("y", y))}
    nodes = "\n".join(f'%{n} = assign.node "{n}" on_device : memref<{s}xf32>' for n, s in shapes.items())
    module = parse_module(f"""
loops.func @f {{
  {nodes}
  loops.nest "y" ({", ".join(f"{name} = 64" for name in y.split(", "))}) {{
    %sum = loops.reduce add (k = 64) : f32 {{
      %xv = loops.load %x[{x}]
      %wv = loops.load %w[{w}]
      {body}
      loops.yield %r
    }}
    loops.store %sum, %y[{y}]
  }}
}}
""")
    (nest,) = nests(the_func(module))
    return is_product(next(op for op in nest.body.block.ops if isinstance(op, ReduceOp)))


@pytest.mark.parametrize(
    ("x", "w", "y"),
    [("b, k", "o, k", "b, o"), ("k", "o, k", "o"), ("b, k", "k", "b"), ("b, k", "b, k, o", "b, o")],
)
def test_products_of_matrices_and_vectors(x: str, w: str, y: str):
    assert is_a_product(x, w, y)


@pytest.mark.parametrize(("x", "w", "y"), [("b, k", "b, k", "b"), ("b, k", "b", "b"), ("b", "b, k", "b")])
def test_elementwise_products_and_scaled_sums_are_none(x: str, w: str, y: str):
    assert not is_a_product(x, w, y)


def test_the_factors_may_be_computed():
    negated = "%n = arith.negf %xv : f32\n %r = arith.mulf %n, %wv : f32"
    assert is_a_product("k", "o, k", "o", negated)


def test_a_vector_that_is_added_makes_no_product():
    assert not is_a_product("k", "o, k", "o", "%r = arith.addf %xv, %wv : f32")
