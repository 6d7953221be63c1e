"""Packed copies of operands: what reads them computes what it did, and reads them in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module, random_arrays, the_func
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import nests, operations
from ocannl.passes.loops.schedule.pack import pack

SIZES = {"b": 6, "o": 8, "i": 5}


def product(x: str = "b, i", w: str = "o, i", is_widened: bool = False) -> str:
    """A matrix product, of f64 with a matrix of f32 if that is widened."""
    shapes = {axes: "x".join(str(SIZES[a]) for a in axes.split(", ")) for axes in (x, w)}
    element, value = ("f64", "%wide") if is_widened else ("f32", "%wv")
    return f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{shapes[x]}x{element}>
  %w = assign.node "w" on_device : memref<{shapes[w]}xf32>
  %y = assign.node "y" on_device : memref<6x8x{element}>
  loops.nest "y" (b = 6, o = 8) {{
    %sum = loops.reduce add (i = 5) : {element} {{
      %wv = loops.load %w[{w}]
      {"%wide = arith.extf %wv : f32 to f64" if is_widened else ""}
      %xv = loops.load %x[{x}]
      %p = arith.mulf {value}, %xv : {element}
      loops.yield %p
    }}
    loops.store %sum, %y[b, o]
  }}
}}
"""


def packed(text: str, names: str, schedule: Schedule) -> tuple[ModuleOp, Schedule]:
    """With copies of the nodes of these names; the results are those from before."""
    module = parse_module(text)
    func = the_func(module)
    expected = random_arrays(func)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(func, expected, {})
    (nest,) = nests(func)
    loads = [
        op for op in operations(nest.body.block) if isinstance(op, LoadOp) and op.node.name_hint in (*names,)
    ]
    new, copies = pack(nest, loads, schedule, Names(set()))
    module.verify()
    assert nests(func) == [*copies, nest]
    assert len(copies) == len(loads)
    assert {*"*".join(new.order).split("*")} <= {*nest.space.names}
    run_func(func, found, {})
    for label, array in expected.items():
        np.testing.assert_allclose(found[label], array, rtol=1e-6)
    return module, new


@given(
    st.sampled_from(("b, i", "i, b")),
    st.sampled_from(("o, i", "i, o")),
    st.sampled_from(("w", "x", "wx")),
    st.permutations(("b", "o")),
    st.sampled_from(("b", "o")),
    st.sampled_from((1, 2, 4, 8)),
    st.sampled_from((None, 2, 3, 4)),
)
def test_results_are_as_before(
    x: str, w: str, names: str, order: list[str], lanes: str, width: int, height: int | None
):
    rows = None if height is None else ("o" if lanes == "b" else "b", height)
    packed(product(x, w), names, Schedule(order=tuple(order), rows=rows, lanes=(lanes, width)))


def test_a_panel_for_each_vector():
    """Along the lanes of a panel the copy is contiguous; the reduced variable is outside them."""
    module, schedule = packed(product(), "w", Schedule(order=("b", "o"), lanes=("o", 4)))
    assert schedule == Schedule(order=("b", "o_panel", "o"), lanes=("o", 4))
    text = str(module)
    assert '"w.packed" local because "contiguous copy for y"' in text
    assert "memref<2x5x4xf32>" in text
    assert 'loops.nest "w.packed" (o_panel = 2, i = 5, o = 4)' in text
    assert "loops.load %w[o + 4*o_panel, i]" in text
    assert 'loops.nest "y" (b = 6, o_panel = 2, o = 4)' in text


def test_a_panel_for_the_rows_of_each_tile():
    """An operand that lies along the rows is contiguous along those of a tile."""
    schedule = Schedule(order=("o", "b"), rows=("b", 3), lanes=("o", 4))
    module, new = packed(product(x="i, b"), "wx", schedule)
    assert new == Schedule(order=("o_panel", "o", "b_panel", "b"), rows=("b", 3), lanes=("o", 4))
    text = str(module)
    assert 'loops.nest "x.packed" (b_panel = 2, i = 5, b = 3)' in text
    assert 'loops.nest "w.packed" (o_panel = 2, i = 5, o = 4)' in text
    assert 'loops.nest "y" (b_panel = 2, b = 3, o_panel = 2, o = 4)' in text


@pytest.mark.parametrize(("x", "height"), [("i, b", 4), ("b, i", 3)])
def test_rows_stay_whole_where_tiles_do_not_cover_them_or_nothing_lies_along_them(x: str, height: int):
    schedule = Schedule(order=("o", "b"), rows=("b", height), lanes=("o", 8))
    module, _ = packed(product(x=x), "x", schedule)
    assert 'loops.nest "x.packed" (b = 6, i = 5)' in str(module)


@pytest.mark.parametrize("width", [3, 8, 16])
def test_no_panels_where_vectors_do_not_cover_the_lanes_or_one_does(width: int):
    module, schedule = packed(product(), "w", Schedule(order=("b", "o"), lanes=("o", width)))
    assert schedule.order == ("b", "o")
    assert 'loops.nest "w.packed" (i = 5, o = 8)' in str(module)


def test_variables_outside_come_first():
    module, _ = packed(product(), "x", Schedule(order=("b", "o"), lanes=("o", 8)))
    assert 'loops.nest "x.packed" (b = 6, i = 5)' in str(module)


def test_a_copy_of_what_is_widened_has_wide_numbers():
    module, _ = packed(product(is_widened=True), "w", Schedule(order=("b", "o"), lanes=("o", 8)))
    (copy, nest) = nests(the_func(module))
    assert "arith.extf" in str(copy)
    assert "arith.extf" not in str(nest)
    assert "memref<5x8xf64>" in str(module)


def test_a_copy_of_what_is_used_otherwise_too_is_narrow():
    """The sum has the number as it is, and converted."""
    text = product(is_widened=True)
    wide = "%wide = arith.extf %wv : f32 to f64"
    assert wide in text
    text = text.replace(wide, f"%square = arith.mulf %wv, %wv : f32\n{wide}")
    text = text.replace("mulf %wide, %xv : f64", "mulf %wide, %other : f64")
    text = text.replace("%p =", "%other = arith.extf %square : f32 to f64\n%p =")
    module, _ = packed(text, "w", Schedule(order=("b", "o"), lanes=("o", 8)))
    (copy, _) = nests(the_func(module))
    assert "arith.extf" not in str(copy)
    assert "memref<5x8xf32>" in str(module)


GROUP = """
loops.func @group {{
  %x = assign.node "x" on_device : memref<3x8x5xf32>
  %w = assign.node "w" on_device : memref<5x8xf32>
  %y = assign.node "y" on_device : memref<3x8xf32>
  loops.group "y" (b = 3) {{
    {first}
    loops.nest "y" (o = 8) {{
      %sum = loops.reduce add (i = 5) : f32 {{
        %wv = loops.load %w[i, o]
        %xv = loops.load %x[b, o, i]
        %p = arith.mulf %wv, %xv : f32
        loops.yield %p
      }}
      loops.store %sum, %y[b, o]
    }}
  }}
}}
"""
WRITES_W = """
    loops.nest "w" (o = 8) {
      %xv = loops.load %x[b, o, 0]
      loops.store %xv, %w[0, o]
    }
"""


@pytest.mark.parametrize(
    ("first", "name", "before_the_group"),
    [("", "w", True), ("", "x", False), (WRITES_W, "w", False)],
    ids=["the same at all points", "other values at each point", "written at each point"],
)
def test_in_a_group(first: str, name: str, before_the_group: bool):
    """A copy that is the same at all points of a group is made once, before it."""
    func = the_func(parse_module(GROUP.format(first=first)))
    *_, nest = nests(func)
    (load,) = (
        op for op in operations(nest.body.block) if isinstance(op, LoadOp) and op.node.name_hint == name
    )
    _, (copy,) = pack(nest, [load], Schedule(order=("o",), lanes=("o", 8)), Names(set()))
    func.verify()
    assert (copy.parent_op() is func) == before_the_group
    assert copy.space.data == (("i", 5), ("o", 8))


IMAGE_GRADIENT = """
loops.func @f {
  %w = assign.node "w" on_device : memref<3x2x2x8xf32>
  %g = assign.node "g" on_device : memref<2x4x3xf32>
  %y = assign.node "y" on_device : memref<2x4x2x2x8xf32>
  loops.nest "y" (b = 2, h = 4, kh = 2, kw = 2, c = 8) {
    %sum = loops.reduce add (o = 3) : f32 {
      %gv = loops.load %g[b, h, o]
      %wv = loops.load %w[o, kh, kw, c]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, kh, kw, c]
  }
}
"""


@pytest.mark.parametrize(
    ("merged", "width", "lanes", "order"),
    [
        (("kw", "c"), 4, "c", ("b", "kh", "kw", "c_panel", "c", "h")),
        (("kh", "kw", "c"), 4, "c", ("b", "kh*kw", "c_panel", "c", "h")),
        (("kw", "c"), 8, "c", ("b", "kh", "kw", "c", "h")),
        # No whole vectors cover the innermost one.
        (("kw", "c"), 16, "kw*c", ("b", "kh", "kw*c", "h")),
    ],
)
def test_merged_lanes_have_panels_of_the_innermost(
    merged: tuple[str, ...], width: int, lanes: str, order: tuple[str, ...]
):
    loop = "*".join(merged)
    before = ("b", *(name for name in ("kh", "kw") if name not in merged), loop, "h")
    schedule = Schedule(order=before, rows=("h", 2), lanes=(loop, width), merged=(merged,))
    _, new = packed(IMAGE_GRADIENT, "w", schedule)
    assert new.lanes == (lanes, width)
    assert new.order == order
