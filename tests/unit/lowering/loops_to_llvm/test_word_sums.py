"""Sums of the products of four neighbouring bytes, with what is greatest in them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import parse_module, run_compiled

from ocannl.lowering.loops_to_llvm.module import loops_to_llvm
from ocannl.passes.analysis.targets.processors import processor

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


@pytest.mark.parametrize(("cpu", "splat"), [("x86-64-v3", "<32 x i8>"), ("x86-64-v4", "<16 x i16>")])
def test_bytes_are_splat_as_the_target_splats_them(cpu: str, splat: str):
    """AVX2 has bytes of memory in all lanes by one instruction, AVX-512 those of general registers."""
    text = TEXT.format(scale="ui8", step="andi", number=15, extension="extui", lanes=8)
    found = str(loops_to_llvm(parse_module(text), target=processor(cpu)))
    assert f"insertelement {splat} poison" in found


SIGNED = """
loops.func @of_signed {{
  %w = assign.node "w" on_device because "parameter" : memref<8x4x64xi8>
  %x = assign.node "x" on_device because "data" : memref<4x64xi8>
  %y = assign.node "y" on_device because "computed by forward" : memref<8xi32>
  loops.nest "y" (o = 8) schedule <order = (o), rows = o : 8, lanes = l : {lanes}> {{
    %least = arith.constant {least} : i32
    %sum = loops.reduce add (p = 4, l = 16) : i32 {{
      %words = loops.reduce add (i = 4) : i32 {{
        %a = loops.load %w[o, p, 4*l + i]
        %aw = arith.extsi %a : i8 to i32
        %b = loops.load %x[p, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %raised = arith.maxsi %bw, %least : i32
        %q = arith.muli %aw, %raised : i32
        loops.yield %q
      }}
      loops.yield %words
    }}
    loops.store %sum, %y[o]
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("least", [-200, -128, -127, -5, 0, 3])
def test_sums_of_numbers_with_signs(least: int, lanes: int):
    """With the greatest products of pairs, and the byte without an opposite in both factors."""
    rng = np.random.default_rng(0)
    w = rng.choice([-128, -127, -1, 0, 127], (8, 4, 64)).astype(np.int8)
    x = rng.choice([-128, -127, -1, 0, 127], (4, 64)).astype(np.int8)
    w[0], w[1], x[:2] = -128, 127, -128
    arrays = {"w": w, "x": x, "y": np.zeros(8, np.int32)}
    run_compiled(parse_module(SIGNED.format(least=least, lanes=lanes)), arrays, {})
    raised = np.maximum(x.astype(np.int64), least)
    np.testing.assert_array_equal(arrays["y"], (w.astype(np.int64) * raised).sum((-1, -2)))


@pytest.mark.parametrize("lanes", [8, 16])
def test_signs_move_where_bytes_have_opposites(lanes: int):
    """AVX2 without VNNI adds up pairs of bytes then, and pairs of 16 bits otherwise; so it does for
    each half of tiles that are wider than vectors.
    """
    target = processor("x86-64-v3")
    modules = (parse_module(SIGNED.format(least=least, lanes=lanes)) for least in (-127, -128))
    texts = [str(loops_to_llvm(module, target=target)) for module in modules]
    assert ["avx2.psign.b" in text and "avx2.pmadd.ub.sw" in text for text in texts] == [True, False]
