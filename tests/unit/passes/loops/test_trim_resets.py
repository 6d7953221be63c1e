"""Resets leave out what is written before it is read."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module
from xdsl.context import Context

from ocannl.passes.analysis.nests import functions, nests, points
from ocannl.passes.loops import trim_resets

# Cells before a box, in it, and behind it.
AXES = st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2))


def program(axes: list[tuple[int, int, int]]) -> str:
    shape, box = ["x".join(map(str, sizes)) for sizes in ([sum(axis) for axis in axes], [a[1] for a in axes])]
    whole = ", ".join(f"i{n} = {sum(axis)}" for n, axis in enumerate(axes))
    inside = ", ".join(f"j{n} = {size}" for n, (_, size, _) in enumerate(axes))
    places = [", ".join(f"{name}{n}" for n in range(len(axes))) for name in "ij"]
    moved = ", ".join(f"j{n} + {start}" for n, (start, _, _) in enumerate(axes))
    return f"""
loops.func @padded {{
  %x = assign.node "x" on_device : memref<{box}xf32>
  %p = assign.node "p" on_device : memref<{shape}xf32>
  loops.nest "p reset" ({whole}) {{
    %zero = arith.constant 5.0 : f32
    loops.store %zero, %p[{places[0]}]
  }}
  loops.nest "p" ({inside}) {{
    %v = loops.load %x[{places[1]}]
    loops.store %v, %p[{moved}]
  }}
}}
"""


@given(st.lists(AXES, min_size=1, max_size=3))
def test_each_cell_is_written_once(axes: list[tuple[int, int, int]]):
    module = parse_module(program(axes))
    with patch.object(trim_resets, "LAUNCH_CYCLES", 0):
        trim_resets.TrimResetsPass().apply(Context(), module)
    module.verify()
    (func,) = functions(module)
    numbers = np.arange(np.prod([size for _, size, _ in axes]), dtype=np.float32)
    inner = numbers.reshape([size for _, size, _ in axes])
    arrays = {"x": inner, "p": np.full([sum(axis) for axis in axes], -1, np.float32)}
    run_func(func, arrays, {})
    expected = np.pad(inner, [(before, behind) for before, _, behind in axes], constant_values=5)
    np.testing.assert_array_equal(arrays["p"], expected)
    assert sum(points(nest.space.data) for nest in nests(func)) == expected.size
