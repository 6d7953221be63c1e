"""Compiled sums in blocks: every number counts once, and what the additions of blocks round off is kept."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nests import parse_module, random_arrays, run_compiled, the_func

from ocannl.lowering.loops_to_llvm import loops_to_llvm

COMPENSATED = "blocks 1 compensated"


def summed(x: NDArray[np.float32], blocks: str, schedule: str = "") -> NDArray[np.float32]:
    """The sums of an array over all axes but the first, by loops `i`, `j`, `k`."""
    names = "ijk"[: x.ndim - 1]
    space = ", ".join(f"{name} = {size}" for name, size in zip(names, x.shape[1:], strict=True))
    module = parse_module(f"""
loops.func @summed {{
  %x = assign.node "x" on_device : memref<{"x".join(map(str, x.shape))}xf32>
  %y = assign.node "y" on_device : memref<{len(x)}xf32>
  loops.nest "y" (b = {len(x)}) schedule <{schedule or "chains = 1"}> {{
    %r = loops.reduce add ({space}) {blocks} : f32 {{
      %v = loops.load %x[{", ".join(["b", *names])}]
      loops.yield %v
    }}
    loops.store %r, %y[b]
  }}
}}""")
    arrays = random_arrays(the_func(module))
    arrays["x"][...] = x
    run_compiled(module, arrays)
    return arrays["y"]


@pytest.mark.parametrize("blocks", ["blocks 1", "blocks 6", "blocks 16 compensated"])
@pytest.mark.parametrize("schedule", ["", "chains = 3", "lanes = b : 4", "lanes = i : 4"])
@pytest.mark.parametrize("shape", [(), (53,), (2, 53), (9, 6), (3, 1, 20)])
def test_every_number_counts_once(shape: tuple[int, ...], schedule: str, blocks: str):
    """Whole numbers add up exactly, so that one that is left out or taken twice shows."""
    if not shape and "i" in schedule.partition(" = ")[2]:
        pytest.skip("no loop to be the lanes")
    x = np.random.default_rng(0).integers(1, 1000, (6, *shape)).astype(np.float32)
    np.testing.assert_array_equal(summed(x, blocks, schedule), x.reshape(6, -1).sum(1))


def test_what_is_rounded_off_is_kept():
    """Steps add up eight neighbours at most before a total has them: these are equal."""
    x = np.array([[1e8, 1, 1, -1e8, 3], [1, 1e8, -1e8, 2, 0]], np.float32).repeat(8, axis=1)
    assert not np.array_equal(summed(x, "blocks 1"), [40, 24])
    np.testing.assert_array_equal(summed(x, COMPENSATED, "lanes = b : 2"), [40, 24])


def test_what_is_not_finite_has_no_error():
    x = np.array([[1, np.inf, 1], [3e38, 3e38, 1], [1, np.nan, 1]], np.float32)
    np.testing.assert_array_equal(summed(x, COMPENSATED), [np.inf, np.inf, np.nan])


def test_a_step_reads_no_more_than_the_prefetcher_follows():
    """LLVM reads the first vector of all points of a step before the second one: eight points of 64 numbers
    are read back and forth over 2 KiB, at a quarter of the speed of memory.
    """
    module = parse_module("""
loops.func @summed {
  %x = assign.node "x" on_device : memref<8192xf32>
  %y = assign.node "y" on_device : memref<f32>
  loops.nest "y" () schedule <lanes = i : 64> {
    %r = loops.reduce add (i = 8192) blocks 16 compensated : f32 {
      %v = loops.load %x[i]
      loops.yield %v
    }
    loops.store %r, %y[]
  }
}""")
    assert len(re.findall("= load <64 x float>, .* align 4", loops_to_llvm(module))) == 2
