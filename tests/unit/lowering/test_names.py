"""Routines and kernels with names that code has or calls for its own purposes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.kernels import layer, lowered, many_nodes
from support.metal_on_cpu import COMPILER, compile_text
from support.nests import parse_module, random_arrays, run_compiled, the_func
from xdsl.context import Context

from ocannl.dialects.ir.text_printer import op_text
from ocannl.lowering.kernels_to_llvm import Emulation, to_llvm
from ocannl.lowering.kernels_to_llvm.device import kernels_to_device
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.loops_to_llvm.calls import MOST_CALLS
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.runtime.host.processor import host
from ocannl.runtime.llvm_parser import parse_llvm


def program(routine: str, label: str = "y", body: str = "%r = math.sin %v : f32") -> str:
    module = parse_module(f"""
loops.func @{routine} {{
  %x = assign.node "x" on_device : memref<40xf32>
  %y = assign.node "y" on_device : memref<40xf32>
  loops.nest "{label}" (i = 40) {{
    %v = loops.load %x[i]
    {body}
    loops.store %r, %y[i]
  }}
}}""")
    ExpandMathPass().apply(Context(), module)
    return op_text(the_func(module))


def llvm_text(text: str, *, is_emulated: bool) -> str:
    """Checked code for a CPU, or for one that emulates a GPU."""
    return to_llvm(lowered(text) if is_emulated else parse_module(text), Emulation(check=True))


def globals_of(text: str) -> set[str]:
    """The names of all functions and global variables that an LLVM module defines or declares."""
    module = parse_llvm(text)
    return {part.name for part in (*module.functions, *module.global_variables)}


@pytest.mark.parametrize("is_emulated", [False, True])
def test_only_kernels_have_a_point_and_only_entries_are_routines(is_emulated: bool):
    """So that nothing else can have the name of one, whatever users call their routines and tensors."""
    found = globals_of(llvm_text(program("step"), is_emulated=is_emulated))
    ours = {name for name in found if not name.startswith("llvm.")}
    assert {name for name in ours if "." in name} == {"step.y"}
    assert {name for name in ours if name.startswith("routine ")} == {"routine step"}
    assert len(ours) > 2


@pytest.mark.parametrize(
    ("routine", "label"),
    [("check", "y"), ("inside", "y"), ("kernel", "start"), ("text", "1.0"), ("llvm", "fabs.f32")],
)
@pytest.mark.parametrize("is_emulated", [False, True])
def test_names_of_helpers(routine: str, label: str, is_emulated: bool):
    parse_llvm(llvm_text(program(routine, label), is_emulated=is_emulated))


def test_a_routine_of_many_calls_is_named_as_their_loop():
    body = "%v = arith.constant 1.0 : f32 loops.store %v, %y[i]"
    steps = [f'loops.nest "y{k}" (i = {k + 1}) {{ {body} }}' for k in range(MOST_CALLS + 1)]
    node = '%y = assign.node "y" on_device : memref<40xf32>'
    parse_llvm(to_llvm(parse_module(f"loops.func @run {{ {node} {' '.join(steps)} }}")))


@pytest.mark.skipif(host().arch != "x86_64", reason="code for x86-64 runs elsewhere")
def test_a_routine_is_named_as_a_function_that_its_code_calls():
    """This processor rounds down by a function of the C library."""
    module = parse_module(program("floorf", body="%r = math.floor %v : f32"))
    arrays = random_arrays(the_func(module))
    run_compiled(module, arrays, target=processor("x86-64"))
    np.testing.assert_array_equal(arrays["y"], np.floor(arrays["x"]))


def test_kernels_for_nvidia():
    """Named as a function of far angles, as an array of another kernel, and as a constant of PTX."""
    parse_llvm(kernels_to_device(lowered(program("far", "sine_f32")), "sm_80").text)
    other = program("layer_y", "shared0", "%r = math.absf %v : f32")
    text = kernels_to_device(lowered(f"{layer(64, 64, 64)}\n{other}"), "sm_80").text
    assert {"layer_y", "layer_y_shared0", "layer_y_shared0_1"} < globals_of(text)
    assert "WARP_SZ_1" in globals_of(kernels_to_device(lowered(program("WARP", "SZ")), "sm_80").text)


def kernel_names(text: str) -> list[str]:
    return re.findall(r"^void (\w+)\(", text, re.MULTILINE)


class TestMetal:
    def test_functions_of_far_angles(self):
        text = to_metal(lowered(program("far", "sine")))
        assert kernel_names(text) == ["far_sine_1"]
        assert "inline float far_sine(" in text
        if COMPILER is not None:
            compile_text(text)

    def test_functions_that_no_kernel_calls(self):
        """The name of the kernel ends like theirs."""
        text = to_metal(lowered(program("so", "far_sine", "%r = math.absf %v : f32")))
        assert kernel_names(text) == ["so_far_sine"]
        assert "inline float far_sine" not in text

    def test_structures_of_nodes(self):
        many = many_nodes(40).replace("@many", "@a")
        other = program("a_sum", "nodes")
        texts = [to_metal(lowered(text)) for text in (f"{many}\n{other}", f"{other}\n{many}")]
        assert [kernel_names(text) for text in texts] == [
            ["a_sum", "a_sum_nodes_1"],
            ["a_sum_nodes", "a_sum_1"],
        ]
