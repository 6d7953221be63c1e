"""Arrays of threads: in registers on a GPU, and the same numbers on all targets."""

from __future__ import annotations

import numpy as np
import pytest
from support.metal_on_cpu import COMPILER, compile_text
from support.nests import parse_module, run_compiled
from support.ptx.run import run_ptx

from ocannl.lowering.kernels.description import descriptions
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.runtime.cuda.ptx import ptx_text
from ocannl.runtime.memory import aligned_array

TURNS, THREADS, REGISTERS = 9, 64, 4
RUNNING = f"""
loops.func @running {{
  %x = assign.node "x" on_device : memref<{TURNS}x{THREADS}x{REGISTERS}xf32>
  %y = assign.node "y" on_device : memref<{THREADS}x{REGISTERS}xf32>
  kernel.launch "y" block (t = {THREADS}) registers (r = {REGISTERS}) {{
    %sums = kernel.own memref<{REGISTERS}xf32>
    %zero = arith.constant 0.000000e+00 : f32
    loops.store %zero, %sums[r]
    kernel.for (k = {TURNS}) {{
      %old = loops.load %sums[r]
      %half = arith.constant 5.000000e-01 : f32
      %scaled = arith.mulf %old, %half : f32
      %v = loops.load %x[k, t, r]
      %new = arith.addf %scaled, %v : f32
      loops.store %new, %sums[r]
      kernel.barrier
    }}
    %all = loops.load %sums[r]
    loops.store %all, %y[t, r]
  }}
}}
"""


def arrays() -> dict[str, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((TURNS, THREADS, REGISTERS)).astype(np.float32)
    return {"x": x, "y": np.zeros((THREADS, REGISTERS), np.float32)}


def expected(x: np.ndarray) -> np.ndarray:
    total = np.zeros((THREADS, REGISTERS), np.float32)
    for turn in x:
        total = total * np.float32(0.5) + turn
    return total


@pytest.mark.parametrize("check", [False, True])
def test_emulated(check: bool):
    """The threads run one after the other between barriers: each has its own array."""
    found = arrays()
    run_compiled(parse_module(RUNNING), found, emulation=Emulation(shuffle=1, check=check))
    np.testing.assert_array_equal(found["y"], expected(found["x"]))


def test_as_ptx():
    """Nothing of them is left in memory."""
    text, found = ptx_text(parse_module(RUNNING)), arrays()
    assert ".local" not in text
    run_ptx(text, found)
    np.testing.assert_array_equal(found["y"], expected(found["x"]))


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")
def test_as_metal():
    text, found = to_metal(parse_module(RUNNING)), arrays()
    kernels = compile_text(text)
    (routine,) = descriptions(text)
    (kernel,) = routine.kernels
    memory = {name: aligned_array(array.shape, array.dtype) for name, array in found.items()}
    memory["x"][...] = found["x"]
    arguments = [memory[name].ctypes.data for name in kernel.buffers]
    assert kernels[kernel.function](arguments, kernel.blocks, kernel.threads), "a barrier is missed"
    np.testing.assert_array_equal(memory["y"], expected(found["x"]))
