"""PTX of all kinds of kernels: NVIDIA's assembler takes them, and what they need fits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import device_programs as programs
from support.kernels import layer, lowered, many_nodes, sums
from support.nests import parse_module
from support.operators import FLOAT_OPERATORS, function, operands
from xdsl.context import Context

import ocannl as oc
from ocannl.dialects.ir.errors import DeviceError, OcannlError
from ocannl.lowering.kernels_to_llvm.limits import MOST_ARGUMENTS
from ocannl.lowering.pipelines import module_text
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.runtime.cuda.ptx import ARCHS, kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import Resources, assemble, find_ptxas, resources

NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
ASSEMBLED_FOR = pytest.mark.parametrize("arch", ["sm_80", "sm_90"])

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'step_y' for 'sm_80'
ptxas info    : Function properties for step_y
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16896 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'step_z' for 'sm_80'
ptxas info    : Function properties for step_z
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
"""


def test_report():
    assert resources(REPORT) == {"step_y": Resources(255, 20, 16896), "step_z": Resources(8, 0, 0)}


@pytest.mark.parametrize("arch", ARCHS)
def test_every_architecture_has_text(arch: str):
    assert f".target {arch}\n" in ptx_text(lowered(layer(32, 32, 32)), arch)


def test_addresses_of_shared_memory_have_32_bits():
    text = ptx_text(lowered(layer(64, 64, 64)))
    shared = re.findall(r"^\t(?:ld|st|cp\.async)\S*shared\S*\s[^\[]*\[(%\w+)", text, re.MULTILINE)
    assert shared
    assert all(register.startswith("%r") and not register.startswith("%rd") for register in shared)


def test_unknown_architecture():
    with pytest.raises(DeviceError, match="no GPU architecture 'sm_1'; known are sm_80, sm_86"):
        ptx_text(lowered(layer(32, 32, 32)), "sm_1")


@pytest.mark.parametrize("name", ["tan", "acos", "log10"])
def test_functions_that_the_hardware_has_not(name: str):
    text = f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<9xf32>
  loops.nest "x" (i = 9) {{
    %v = loops.load %x[i]
    %w = math.{name} %v : f32
    loops.store %w, %x[i]
  }}
}}
"""
    with pytest.raises(OcannlError, match=f"the GPU has no `math.{name}` of f32"):
        ptx_text(lowered(text))


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@NEEDS_PTXAS
@ASSEMBLED_FOR
def test_many_nodes(arch: str):
    assert kernel_resources(lowered(many_nodes(MOST_ARGUMENTS)), arch)
    with pytest.raises(OcannlError, match="it uses 545 nodes and 0 static indices; NVIDIA's GPUs take 544"):
        ptx_text(lowered(many_nodes(MOST_ARGUMENTS + 1)), arch)


@NEEDS_PTXAS
def test_what_is_no_ptx_is_rejected():
    with pytest.raises(DeviceError, match="ptxas rejects the kernels"):
        assemble(".version 7.0\n.target sm_80\n.nonsense\n", "sm_80")


def check_kernels(text: str, arch: str) -> list[Resources]:
    """The kernels of a program assemble; none of them keeps registers in memory."""
    found = kernel_resources(lowered(text), arch)
    assert found
    assert not any(kernel.spilled for kernel in found)
    return found


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@NEEDS_PTXAS
@ASSEMBLED_FOR
@pytest.mark.parametrize(
    "sizes", [(32, 32, 8), (37, 21, 23), (120, 784, 64), (512, 512, 512), (1000, 1000, 784), (4096,) * 3]
)
@pytest.mark.parametrize("w", ["o, i", "i, o"])
def test_contractions_fit_into_registers(sizes: tuple[int, int, int], w: str, arch: str):
    (found,) = check_kernels(layer(*sizes, w=w), arch)
    assert found.shared > 0


@pytest.mark.exhaustive
@NEEDS_PTXAS
@ASSEMBLED_FOR
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_a_few_steps_fit_into_registers(element: str, arch: str):
    """All loops are short: without them, all loads would come before the first product."""
    check_kernels(
        f"""
loops.func @gradient {{
  %x = assign.node "x" on_device : memref<3x64x87x{element}>
  %y = assign.node "y" on_device : memref<3x64x32x{element}>
  %w = assign.node "w" on_device : memref<87x32x{element}>
  loops.nest "w" (o = 87, i = 32) {{
    %sum = loops.reduce add (b = 3, t = 64) : {element} {{
      %xv = loops.load %x[b, t, o]
      %yv = loops.load %y[b, t, i]
      %p = arith.mulf %xv, %yv : {element}
      loops.yield %p
    }}
    loops.store %sum, %w[o, i]
  }}
}}
""",
        arch,
    )


@pytest.mark.exhaustive
@NEEDS_PTXAS
@ASSEMBLED_FOR
def test_large_contractions_in_double_precision(arch: str):
    check_kernels(layer(1024, 1024, 64, "f64"), arch)


@NEEDS_PTXAS
@ASSEMBLED_FOR
@pytest.mark.parametrize("length", [50, 5000])
def test_rows_and_columns(length: int, arch: str):
    check_kernels(sums("i = 96", f"k = {length}", "i, k", f"96x{length}", "i", "96"), arch)
    check_kernels(sums("i = 96", f"k = {length}", "k, i", f"{length}x96", "i", "96"), arch)
    check_kernels(sums("i = 5", f"k = {length}", "k, i", f"{length}x5", "i", "5"), arch)


@pytest.mark.sampled(5)
@NEEDS_PTXAS
@ASSEMBLED_FOR
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_every_operator(dtype: type[np.floating], arch: str):
    tensors = [oc.data(array) for array in operands(dtype)]
    results = [function(name)(*tensors[: op.arity]) for name, op in FLOAT_OPERATORS.items()]
    code = sum(map(oc.forward, results), oc.Code())
    assemble(oc.Context.emulated_gpu().compile(code, name="operators").ptx(arch), arch)


SMALL = pytest.mark.parametrize(
    "dtype", [oc.float16, oc.bfloat16, oc.float8_e5m2, oc.float8_e4m3fn], ids=["f16", "bf16", "e5m2", "e4m3"]
)


@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@NEEDS_PTXAS
@ASSEMBLED_FOR
@SMALL
def test_small_floats(dtype: type[np.generic], arch: str):
    """Every operator, and products, of what is stored in 8 or 16 bits."""
    x = np.linspace(-2, 2, 64 * 64, dtype=np.float32).reshape(64, 64).astype(dtype)
    tensors = [oc.data(x), oc.data(x[::-1].copy()), oc.data(x.T.copy())]
    results = [function(name)(*tensors[: op.arity]) for name, op in FLOAT_OPERATORS.items()]
    results += [oc.data(x, axes="oi") @ oc.data(x, axes="bo"), tensors[0].einsum("...b | c => c")]
    code = sum(map(oc.forward, results), oc.Code())
    ptx = oc.Context.emulated_gpu().compile(code, name="operators").ptx(arch)
    assemble(ptx, arch)
    native = {oc.float16: "cvt.rn.f16.f32", oc.bfloat16: "cvt.rn.bf16.f32"}.get(dtype)
    assert native is None or native in ptx


@NEEDS_PTXAS
@ASSEMBLED_FOR
def test_whole_programs(arch: str):
    loss, code, _ = programs.moons()
    step = oc.Context.emulated_gpu().compile(code, name="step")
    head, *rows = step.assemble(arch).splitlines()
    assert "registers a thread" in head
    assert "spilled bytes" in head
    assert len(rows) == step.ir("kernels").count("kernel.launch")
    assert all(int(row.split()[-2]) > 0 for row in rows)
    assert loss.label == "loss"


def test_maxima_are_one_instruction():
    """Those of f32 are NaN where an operand is, as `max.NaN` is; of f64 there is none."""
    for dtype, expected in ((np.float32, True), (np.float64, False)):
        x = oc.data(np.ones((3, 4), dtype), axes="bo", label="x")
        ptx = oc.Context.emulated_gpu().compile(oc.relu(x), name="step").ptx()
        assert ("max.NaN.f32" in ptx) == expected
        assert ("setp" in ptx) != expected


def test_from_a_context_of_the_cpu():
    x = oc.data(np.ones((3, 4), np.float32), axes="bo", label="x")
    step = oc.Context.cpu().compile(oc.exp(x), name="step")
    assert ".visible .entry step_exp(" in step.ptx()
    assert step.ir("ptx") == step.ptx()
    assert "kernel.launch" in step.ir("kernels")
    with pytest.raises(DeviceError, match="a routine for cpu has no kernels"):
        step.assemble()


def test_expanded_math_needs_no_library():
    text = "".join(
        f"%e{k} = math.{name} %v : f32\nloops.store %e{k}, %x[i, {k}]\n"
        for k, name in enumerate(["exp", "log", "sin", "cos", "tanh", "erf", "exp2", "log2"])
    )
    module = parse_module(f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<9x8xf32>
  loops.nest "x" (i = 9) {{
    %v = loops.load %x[i, 0]
    {text}
  }}
}}
""")
    ExpandMathPass().apply(Context(), module)
    ptx = ptx_text(lowered(module_text(module)))
    assert ".extern" not in ptx
