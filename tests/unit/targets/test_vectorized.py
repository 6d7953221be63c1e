"""The machine code of main loops computes vectors, on processors with vectors of 128 bits too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.machine_loops import SCALAR, VECTOR, count, innermost_loops

import ocannl as oc
from ocannl import nn
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.jit import emit_assembly

TARGETS = ["neoverse-n1", "neoverse-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
FUSED = {"aarch64": "\tfmla\tv", "x86_64": "\tvfmadd"}
rng = np.random.default_rng(0)


def data(*shape: int, axes: str = "bo") -> oc.Tensor:
    return oc.data(rng.normal(size=shape).astype(np.float32), axes=axes)


def product() -> oc.Tensor:
    return oc.param("w", output=512) @ data(128, 784)


def convolution() -> oc.Tensor:
    return nn.conv2d(out_channels=32, kernel_size=3)(data(8, 16, 16, 16, axes="bbbo"))


PROGRAMS: dict[str, Callable[[], oc.Tensor]] = {
    "product": product,
    "convolution": convolution,
    "sum": lambda: data(256, 1000) + data(256, 1000),
    "maximum": lambda: oc.maximum(data(256, 1000), data(256, 1000)),
    "gelu": lambda: nn.gelu(data(256, 1000)),
    "softmax": lambda: nn.softmax()(data(256, 1000)),
    "layer norm": lambda: nn.layer_norm()(data(256, 1000)),
}


def main_loops(program: str, target: str) -> list[list[str]]:
    """The innermost loops of a program's machine code that do arithmetic."""
    step = oc.Context.cpu(1, target=target).compile(PROGRAMS[program](), name="program")
    loops = innermost_loops(emit_assembly(step.ir("llvm"), processor(target)))
    arch = processor(target).arch
    return [loop for loop in loops if count(VECTOR[arch], loop) or count(SCALAR[arch], loop)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_main_loops_have_vectors_only(program: str, target: str):
    loops, arch = main_loops(program, target), processor(target).arch
    assert loops
    for loop in loops:
        assert count(VECTOR[arch], loop), "".join(loop)
        assert not count(SCALAR[arch], loop), "\n".join(loop)


@pytest.mark.parametrize("target", TARGETS)
def test_products_multiply_and_add_vectors(target: str):
    loop = max(main_loops("product", target), key=len)
    name = FUSED[processor(target).arch] if processor(target).fuses else "\tmulps"
    products = sum(name in line for line in loop)
    assert products >= 16
    assert products >= len(loop) / 4


def test_maxima_are_one_instruction_on_neon():
    (loop,) = main_loops("maximum", "neoverse-n1")
    assert sum("\tfmax\tv" in line for line in loop) == count(VECTOR["aarch64"], loop)


def test_what_is_scalar_is_told():
    """On code that is not ours."""
    text = """
define float @f(ptr %x) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %n, %loop ]
  %s = phi float [ 0.0, %entry ], [ %t, %loop ]
  %p = getelementptr float, ptr %x, i64 %k
  %v = load volatile float, ptr %p
  %t = fadd float %s, %v
  %n = add i64 %k, 1
  %more = icmp ult i64 %n, 100
  br i1 %more, label %loop, label %end
end:
  ret float %t
}
"""
    for target in TARGETS:
        arch = processor(target).arch
        (loop,) = innermost_loops(emit_assembly(text, processor(target)))
        assert count(SCALAR[arch], loop) == 1
        assert not count(VECTOR[arch], loop)
