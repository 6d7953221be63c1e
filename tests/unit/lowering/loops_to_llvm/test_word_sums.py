"""Sums of the products of four neighbouring bytes, with what is greatest in them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import parse_module, run_compiled

TEXT = """
loops.func @of_block {{
  %w = assign.node "w" on_device because "parameter" : memref<8x4x32xui8>
  %x = assign.node "x" on_device because "data" : memref<4x32xi8>
  %s = assign.node "s" on_device because "data" : memref<8x4x{scale}>
  %y = assign.node "y" on_device because "computed by forward" : memref<8xi32>
  loops.nest "y" (o = 8) schedule <order = (o), rows = o : 8, lanes = l : {lanes}> {{
    %number = arith.constant {number} : i32
    %sum = loops.reduce add (p = 4, l = 8) : i32 {{
      %words = loops.reduce add (i = 4) : i32 {{
        %a = loops.load %w[o, p, 4*l + i]
        %aw = arith.extui %a : i8 to i32
        %bits = arith.{step} %aw, %number : i32
        %b = loops.load %x[p, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %q = arith.muli %bits, %bw : i32
        loops.yield %q
      }}
      %c = loops.load %s[o, p]
      %cw = arith.{extension} %c : i8 to i32
      %r = arith.muli %cw, %words : i32
      loops.yield %r
    }}
    loops.store %sum, %y[o]
  }}
}}
"""


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize(("step", "number"), [("andi", 127), ("andi", 255), ("shrsi", 4)])
@pytest.mark.parametrize("scale", ["i8", "ui8"])
def test_sums_times_a_byte(scale: str, step: str, number: int, lanes: int):
    extension = "extsi" if scale == "i8" else "extui"
    text = TEXT.format(scale=scale, step=step, number=number, extension=extension, lanes=lanes)
    rng, kind = np.random.default_rng(0), np.int8 if scale == "i8" else np.uint8
    w = rng.choice([0, 7, 127, 128, 255], (8, 4, 32)).astype(np.uint8)
    x = rng.choice([-128, -1, 127], (4, 32)).astype(np.int8)
    s = rng.choice([np.iinfo(kind).min, 1, np.iinfo(kind).max], (8, 4)).astype(kind)
    w[0], x[0], s[0] = 255, -128, np.iinfo(kind).max
    arrays = {"w": w, "x": x, "s": s, "y": np.zeros(8, np.int32)}
    run_compiled(parse_module(text), arrays, {})
    bits = (w & number if step == "andi" else w >> number).astype(np.int64)
    np.testing.assert_array_equal(arrays["y"], ((bits * x).sum(-1) * s.astype(np.int64)).sum(-1))
