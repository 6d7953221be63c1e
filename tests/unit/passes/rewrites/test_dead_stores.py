"""Stores whose values nobody reads go, and no others: what persists is as before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module, random_arrays, the_func

from ocannl.dialects.loops import StoreOp
from ocannl.passes.rewrites.dead_stores import mark_virtual, remove_dead_stores

NODES = """
  %x = assign.node "x" on_device : memref<4xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  %t = assign.node "t" local : memref<4xf32>
  %u = assign.node "u" local : memref<4xf32>
"""
# By the size of a nest: index maps of which one has a node in a nest, each to other cells for other points.
MAPS = {4: (("i",), ("-i + 3",)), 2: (("i", "i + 2"), ("2*i", "2*i + 1"))}


def function(*nests: str) -> str:
    return f"loops.func @f {{{NODES}{''.join(nests)}}}"


def nest(size: int, *lines: str) -> str:
    return f'\n  loops.nest "n" (i = {size}) {{\n    ' + "\n    ".join(lines) + "\n  }\n"


@st.composite
def random_nests(draw: st.DrawFn) -> str:
    """Loads, stores and sums of all cells of nodes that the nest does not store to."""
    size = draw(st.sampled_from((4, 2)))
    maps = {node: draw(st.sampled_from(MAPS[size])) for node in "xytu"}
    stored = draw(st.sets(st.sampled_from("xytu"), max_size=3))
    lines = ["%v0 = arith.constant 1.0 : f32"]
    for k in range(1, draw(st.integers(2, 7))):
        value = f"%v{draw(st.integers(0, k - 1))}"
        kind, node = draw(st.sampled_from(("load", "store", "store", "sum"))), draw(st.sampled_from("xytu"))
        at = draw(st.sampled_from(maps[node]))
        lines.append(f"%v{k} = arith.addf {value}, {value} : f32")
        if kind == "store" and node in stored:
            lines.append(f"loops.store {value}, %{node}[{at}]")
        elif kind == "sum" and node not in stored:
            inner = f"%l{k} = loops.load %{node}[k]\n      loops.yield %l{k}"
            lines[-1] = f"%v{k} = loops.reduce add (k = 4) : f32 {{\n      {inner}\n    }}"
        elif kind == "load":
            lines[-1] = f"%v{k} = loops.load %{node}[{at}]"
    return nest(size, *lines)


def remaining(text: str) -> list[str]:
    """The stores that stay, after they have been found to be enough."""
    module = parse_module(text)
    func = the_func(module)
    expected = random_arrays(func)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(func, expected, {})
    remove_dead_stores(func)
    mark_virtual(func, {})
    module.verify()
    run_func(func, found, {})
    for label, array in expected.items():
        np.testing.assert_array_equal(found[label], array, err_msg=f"{label} of\n{text}\n{module}")
    return [str(op.node.name_hint) for op in module.walk() if isinstance(op, StoreOp)]


@settings(max_examples=40)
@given(st.lists(random_nests(), min_size=1, max_size=4))
def test_what_persists_is_as_before(nests: list[str]):
    remaining(function(*nests))


ONE, LOAD_X = "%1 = arith.constant 1.0 : f32", "%x0 = loops.load %x[i]"


@pytest.mark.parametrize(
    ("nests", "stores"),
    [
        ([nest(4, LOAD_X, "loops.store %x0, %t[i]")], ""),
        (
            [
                nest(4, LOAD_X, "loops.store %x0, %t[i]"),
                nest(4, "%a = loops.load %t[i]", "loops.store %a, %y[i]"),
            ],
            "ty",
        ),
        ([nest(4, ONE, LOAD_X, "loops.store %1, %y[i]", "loops.store %x0, %y[i]")], "y"),
        ([nest(2, ONE, LOAD_X, "loops.store %1, %y[i]", "loops.store %x0, %y[i]")], "y"),
        ([nest(2, ONE, LOAD_X, "loops.store %1, %y[i]", "loops.store %x0, %y[i + 2]")], "yy"),
        (
            [
                nest(
                    4,
                    ONE,
                    "loops.store %1, %y[i]",
                    "%a = loops.load %y[i]",
                    "loops.store %a, %x[i]",
                    "loops.store %1, %y[i]",
                )
            ],
            "yxy",
        ),
        ([nest(4, ONE, "loops.store %1, %y[i]"), nest(4, LOAD_X, "loops.store %x0, %y[i]")], "y"),
        ([nest(4, ONE, "loops.store %1, %y[i]"), nest(2, LOAD_X, "loops.store %x0, %y[i]")], "yy"),
        (
            [
                nest(4, ONE, "loops.store %1, %y[i]"),
                nest(4, "%a = loops.load %y[i]", "loops.store %a, %y[i]"),
            ],
            "yy",
        ),
    ],
    ids=[
        "of a local node that nobody reads",
        "of a local node that is read",
        "overwritten in the same cell",
        "overwritten in the same cell of some",
        "of two cells",
        "read before it is overwritten",
        "overwritten by a later nest in all cells",
        "overwritten by a later nest in some cells",
        "read by the nest that overwrites",
    ],
)
def test_stores(nests: list[str], stores: str):
    assert "".join(remaining(function(*nests))) == stores


def test_what_was_computed_for_a_store_alone_goes_with_it():
    module = parse_module(function(nest(4, LOAD_X, "%a = arith.negf %x0 : f32", "loops.store %a, %t[i]")))
    remove_dead_stores(the_func(module))
    mark_virtual(the_func(module), {})
    assert "loops.nest" not in str(module)
    assert '"t" virtual because "never read"' in str(module)
    assert '"x" on_device' in str(module)
