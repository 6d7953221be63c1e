"""Normal random numbers by a nest that is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import entry_symbol
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.lowering.pipelines import parse_text, run_passes
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.host.processor import host
from ocannl.runtime.locks import once
from ocannl.runtime.memory import Entry

# The pairs of numbers that one call makes.
PAIRS = 1 << 14
# Box and Muller's method in f64, rounded last.
TEXT = f"""
loops.func @normal {{
  %words = assign.node "words" on_device : memref<{PAIRS}x2xi32>
  %numbers = assign.node "numbers" on_device : memref<{PAIRS}x2xf32>
  loops.nest "numbers" (j = {PAIRS}) {{
    %first = loops.load %words[j, 0]
    %second = loops.load %words[j, 1]
    %whole_u = arith.uitofp %first : i32 to f64
    %whole_v = arith.uitofp %second : i32 to f64
    %scale = arith.constant {-(2.0**-32)!r} : f64
    %turn = arith.constant {2.0 * math.pi * 2.0**-32!r} : f64
    %factor = arith.constant -2.0 : f64
    %minus_u = arith.mulf %whole_u, %scale : f64
    %log = math.log1p %minus_u : f64
    %square = arith.mulf %log, %factor : f64
    %radius = math.sqrt %square : f64
    %angle = arith.mulf %whole_v, %turn : f64
    %cos = math.cos %angle : f64
    %sin = math.sin %angle : f64
    %x = arith.mulf %radius, %cos : f64
    %y = arith.mulf %radius, %sin : f64
    %x_rounded = arith.truncf %x : f64 to f32
    %y_rounded = arith.truncf %y : f64 to f32
    loops.store %x_rounded, %numbers[j, 0]
    loops.store %y_rounded, %numbers[j, 1]
  }}
}}
"""


@dataclass(frozen=True)
class CompiledNormals:
    """Normal numbers by a function, whose code has to live as long."""

    code: CompiledModule
    function: Callable[[int], None]

    def __call__(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The pairs of normal numbers of pairs of words, `PAIRS` at most. Other threads run meanwhile."""
        whole = words
        if words.size < 2 * PAIRS:
            whole = np.zeros(2 * PAIRS, np.uint32)
            whole[: words.size] = words
        numbers = np.empty(2 * PAIRS, np.float32)
        # Nothing is in the arena, whose address comes first.
        slots = np.array([0, whole.ctypes.data, numbers.ctypes.data], np.int64)
        self.function(slots.ctypes.data)
        return numbers[: words.size]


@once
def compiled_normals() -> CompiledNormals:
    """The function for this processor, compiled once a process. It runs on one thread, since threads share
    the parts of an array.
    """
    alone = replace(host(), cores=1)
    module = parse_text(TEXT)
    run_passes(module, (ExpandMathPass, partial(SchedulePass, described=alone)))
    code = compile_llvm(loops_to_llvm(module, target=alone), target=host())
    return CompiledNormals(code, Entry(code.address(entry_symbol("normal"))))
