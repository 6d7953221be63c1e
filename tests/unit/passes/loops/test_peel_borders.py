"""Sums over windows leave out the zeros around an image, and nothing else: values stay, exactly on small
whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.interpret_loops import run_func
from support.nests import parse_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl.passes.analysis.nests import functions, nests, nodes, points, reduction_work
from ocannl.passes.loops import peel_borders
from ocannl.passes.loops.peel_borders import PeelBordersPass

IN_TURN = """
  loops.nest "p reset" (b = 2, h = {height}, w = {width}, c = 2) {{
    %0 = arith.constant {around} : f32
    loops.store %0, %p[b, h, w, c]
  }}
  loops.nest "p" (b = 2, h = 5, w = 6, c = 2) {{
    %1 = loops.load %x[b, h, w, c]
    loops.store %1, %p[b, h + {before}, w + 1, c]
  }}"""
IN_A_GROUP = """
  loops.group "p reset .. p" (b = 2) {{
    loops.nest "p reset" (h = {height}, w = {width}, c = 2) {{
      %0 = arith.constant {around} : f32
      loops.store %0, %p[b, h, w, c]
    }}
    loops.nest "p" (h = 5, w = 6, c = 2) {{
      %1 = loops.load %x[b, h, w, c]
      loops.store %1, %p[b, h + {before}, w + 1, c]
    }}
  }}"""

EVERYWHERE = """loops.store %1, %p[b, h, w, c]
  }
  loops.nest "p behind" (b = 2, h = 5, w = 6, c = 2) {
    %1 = loops.load %x[b, h, w, c]
    loops.store %1, %p[b, h + 2, w + 2, c]
  }
  loops.nest "p between" (b = 2, h = 5, w = 6, c = 2) {
    %1 = loops.load %x[b, h, w, c]
"""


def convolution(
    offsets: int, step: int, before: int, behind: int, *, around: float = 0.0, grouped: bool = False
) -> str:
    """The sums over windows of an image of 5 x 6 with numbers around it."""
    height, width = 5 + before + behind, 8
    rows, columns = (height - offsets) // step + 1, (width - 3) // step + 1
    image = (IN_A_GROUP if grouped else IN_TURN).format(
        height=height, width=width, before=before, around=around
    )
    return f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<2x5x6x2xf32>
  %k = assign.node "k" on_device : memref<4x{offsets}x3x2xf32>
  %z = assign.node "z" on_device : memref<{rows}x4xf32>
  %p = assign.node "p" local : memref<2x{height}x{width}x2xf32>
  %y = assign.node "y" on_device : memref<2x{rows}x{columns}x4xf32>
  {image}
  loops.nest "y" (b = 2, h = {rows}, w = {columns}, o = 4) schedule <order = (h, w, b, o), lanes = o : 4> {{
    %s = loops.reduce add (i = {offsets}, j = 3, c = 2) : f32 {{
      %d = loops.load %p[b, {step}*h + i, {step}*w + j, c]
      %g = loops.load %k[o, i, j, c]
      %m = arith.mulf %d, %g : f32
      loops.yield %m
    }}
    %t = loops.load %z[h, o]
    %r = arith.addf %s, %t : f32
    loops.store %r, %y[b, h, w, o]
  }}
}}"""


def result(module: ModuleOp) -> NDArray[Any]:
    """The results on small whole numbers; what is local begins with others."""
    (func,) = functions(module)
    arrays = {
        node.label.data: np.random.default_rng(k)
        .integers(-4, 5, node.result.type.get_shape())
        .astype(np.float32)
        for k, node in enumerate(nodes(func))
    }
    run_func(func, arrays, {})
    return arrays["y"]


def peeled(text: str) -> ModuleOp:
    module = parse_module(text)
    PeelBordersPass().apply(Context(), module)
    module.verify()
    return module


def multiplications(module: ModuleOp) -> int:
    (func,) = functions(module)
    return sum(points(nest.space.data) * reduction_work(nest.body.block.ops) for nest in nests(func))


@pytest.fixture(autouse=True)
def small_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peel_borders, "LARGE", 1)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([0.0, 1.0, -0.0]),
    st.booleans(),
)
def test_values_stay(offsets: int, step: int, before: int, behind: int, around: float, grouped: bool) -> None:
    text = convolution(offsets, step, before, behind, around=around, grouped=grouped)
    np.testing.assert_array_equal(result(peeled(text)), result(parse_module(text)))


@pytest.mark.parametrize("grouped", [False, True])
def test_zeros_are_not_multiplied(grouped: bool) -> None:
    """Along the second axis the first of three windows begins in a column of zeros. Along the first axis
    another one ends in a row of them, too, but that would be six nests.
    """
    text = convolution(3, 2, 1, 1, grouped=grouped)
    before, after = parse_module(text), peeled(text)
    assert multiplications(before) == 2 * 3 * 4 * 3 * 2 * 9
    assert multiplications(after) == 2 * 3 * 4 * 3 * 2 * 8
    assert [nest.label.data for nest in nests(functions(after)[0])][-2:] == ["y", "y border"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arith.constant 0.0", "arith.constant 1.0"),  # no zeros
        ("h = 7, w = 8, c = 2", "h = 6, w = 8, c = 2"),  # a row is left as it was
        ("loops.load %x[b, h, w, c]\n", f"loops.load %x[b, h, w, c]\n{EVERYWHERE}"),
        ('"p" local', '"p" on_device'),  # others may write to it
        ("loops.reduce add", "loops.reduce max"),
        ("arith.mulf %d", "arith.addf %d"),
    ],
)
def test_what_may_not_be_zero_is_read(old: str, new: str) -> None:
    text = convolution(3, 2, 1, 1)
    assert old in text
    changed = text.replace(old, new)
    assert multiplications(peeled(changed)) == multiplications(parse_module(changed))


@pytest.mark.parametrize(
    ("schedule", "split"),
    [
        ("order = (h, w, b, o), lanes = o : 4", {"h", "w"}),
        ("merged = (j*c), order = (h, w, b, o), lanes = o : 4", {"h", "w"}),
        ("order = (h, w, b, o), rows = h : 3, lanes = o : 4", {"w"}),
        ("order = (h, w, b, o), lanes = j : 4", {"h"}),
        ("order = (h, w, b, o), lanes = o : 4, strips = h : 2", set[str]()),
    ],
)
def test_loops_of_a_tile_stay(schedule: str, split: set[str]) -> None:
    """Only loops along which a schedule lets a nest be split are."""
    text = convolution(3, 2, 1, 0).replace("order = (h, w, b, o), lanes = o : 4", schedule)
    whole, after = parse_module(text), peeled(text)
    sizes, left = (dict(nests(functions(module)[0])[2].space.data) for module in (whole, after))
    assert {name for name in sizes if left[name] < sizes[name]} == split
    np.testing.assert_array_equal(result(after), result(whole))


@pytest.mark.parametrize("offsets", [3, 5])
def test_compiled_convolutions_are_those_of_numpy(offsets: int) -> None:
    rng = np.random.default_rng(0)
    images, kernel = rng.normal(size=(8, 8, 8, 5)), rng.normal(size=(6, offsets, offsets, 5))
    x, k = (oc.data(array.astype(np.float32), label=label) for array, label in ((images, "x"), (kernel, "k")))
    y = oc.einsum("..., 2*h + i, 2*w + j | c; o, i, j | c => ..., h, w | o", x, k, use_padding=True)
    context = oc.Context()
    routine = context.compile(oc.forward(y))
    routine()
    labels = [step.label.data for step in nests(functions(parse_module(routine.ir("loops")))[0])]
    assert any("border" in label for label in labels)
    before = (offsets - 1) // 2
    padded = np.zeros((8, 8 + offsets, 8 + offsets, 5))
    padded[:, before : before + 8, before : before + 8] = images
    windows = np.lib.stride_tricks.sliding_window_view(padded, (offsets, offsets), (1, 2))[:, :8:2, :8:2]
    expected = np.einsum("bhwcij,oijc->bhwo", windows, kernel)
    np.testing.assert_allclose(context[y], expected, rtol=1e-5, atol=1e-4)
