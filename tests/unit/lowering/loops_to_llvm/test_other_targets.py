"""Code for processors other than this one: it is vectorized, and its tiles stay in registers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.nests import parse_module
from xdsl.context import Context

from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.jit import emit_assembly


@dataclass(frozen=True)
class Processor:
    """A processor, and what its assembly looks like.

    `fma` and `add` are vector instructions, `spill` a vector register that goes to the stack.
    """

    cpu: str
    fma: str
    add: str
    spill: str

    def assembly(self, text: str) -> str:
        module = parse_module(text)
        SchedulePass(cpu=self.cpu).apply(Context(), module)
        PlanMemoryPass().apply(Context(), module)
        target = processor(self.cpu)
        return emit_assembly(loops_to_llvm(module, target=target), target)


SSE4 = Processor("x86-64-v2", r"mulps\s.*%xmm", r"addps\s.*%xmm", r"movaps\s+%xmm\d+, .*\(%rsp\)")
AVX2 = Processor("x86-64-v3", r"vfmadd\d+ps\s.*%ymm", r"vaddps\s.*%ymm", r"vmov[au]ps\s+%ymm\d+, .*\(%rsp\)")
NEON = Processor("neoverse-n1", r"fmla\s+v\d+\.4s", r"fadd\s+v\d+\.4s", r"st[rp]\s+q.*\[sp")

PRODUCT = """
loops.func @product {
  %w = assign.node "w" on_device : memref<512x784xf32>
  %x = assign.node "x" on_device : memref<128x784xf32>
  %y = assign.node "y" on_device : memref<128x512xf32>
  loops.nest "y" (b = 128, o = 512) {
    %sum = loops.reduce add (i = 784) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}"""

CONVOLUTION = """
loops.func @convolution {
  %k = assign.node "k" on_device : memref<6x5x5xf32>
  %x = assign.node "x" on_device : memref<64x32x32xf32>
  %y = assign.node "y" on_device : memref<64x28x28x6xf32>
  loops.nest "y" (b = 64, h = 28, w = 28, o = 6) {
    %sum = loops.reduce add (kh = 5, kw = 5) : f32 {
      %kv = loops.load %k[o, kh, kw]
      %xv = loops.load %x[b, h + kh, w + kw]
      %p = arith.mulf %kv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, w, o]
  }
}"""

KERNEL_GRADIENT = """
loops.func @kernel_gradient {
  %g = assign.node "g" on_device : memref<64x10x10x16xf32>
  %x = assign.node "x" on_device : memref<64x14x14x6xf32>
  %dk = assign.node "dk" on_device : memref<16x5x5x6xf32>
  loops.nest "dk" (o = 16, i = 5, j = 5, c = 6) {
    %sum = loops.reduce add (b = 64, h = 10, w = 10) : f32 {
      %gv = loops.load %g[b, h, w, o]
      %xv = loops.load %x[b, h + i, w + j, c]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %dk[o, i, j, c]
  }
}"""

SUM = """
loops.func @sum {
  %x = assign.node "x" on_device : memref<128x512xf32>
  %y = assign.node "y" on_device : memref<f32>
  loops.nest "y" () {
    %sum = loops.reduce add (i = 128, j = 512) : f32 {
      %v = loops.load %x[i, j]
      loops.yield %v
    }
    loops.store %sum, %y[]
  }
}"""


def loops(assembly: str, instruction: str) -> Iterator[str]:
    """The basic blocks with an instruction, up to their jump."""
    for block in re.split(r"^\.L", assembly, flags=re.MULTILINE):
        loop = re.split(r"^\s+(?:j\w+|b\.\w+)\s", block, flags=re.MULTILINE)[0]
        if re.search(instruction, loop):
            yield loop


@pytest.mark.parametrize("processor", [SSE4, AVX2, NEON], ids=["sse4", "avx2", "neon"])
@pytest.mark.parametrize("text", [PRODUCT, CONVOLUTION, KERNEL_GRADIENT], ids=["product", "image", "kernel"])
def test_contractions_are_vectorized_and_stay_in_registers(processor: Processor, text: str):
    assembly = processor.assembly(text)
    assert len(re.findall(processor.fma, assembly)) >= 8
    assert not any(re.search(processor.spill, loop) for loop in loops(assembly, processor.fma))


@pytest.mark.parametrize("processor", [SSE4, AVX2, NEON], ids=["sse4", "avx2", "neon"])
def test_sums_are_vectorized(processor: Processor):
    assert len(re.findall(processor.add, processor.assembly(SUM))) >= 8


def test_the_chains_of_a_sum_stay_in_registers():
    """Those of one block, whose loop loads from the array."""
    (loop,) = (
        loop for loop in loops(AVX2.assembly(SUM), AVX2.add) if re.search(r"\(%r\w\w,%r\w\w,4\)", loop)
    )
    assert not re.search(AVX2.spill, loop)


def test_registers_are_no_wider_than_asked_for():
    assert "zmm" not in AVX2.assembly(PRODUCT)
