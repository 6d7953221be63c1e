"""Code for matrix units: LLVM has registers for tiles of all shapes, and what runs is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.dot_products import product, small_numbers
from support.interpret_loops import run_func
from support.nests import parse_module, run_compiled, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.lowering.loops_to_llvm.module import loops_to_llvm
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.jit import emit_assembly
from ocannl.runtime.host.processor import host

AMX = processor("sapphirerapids")
has_amx = pytest.mark.skipif("amx-bf16" not in host().features, reason="this processor has no AMX")


def scheduled(text: str, cpu: str = "sapphirerapids") -> ModuleOp:
    module = parse_module(text)
    SchedulePass(cpu=cpu).apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    module.verify()
    return module


def assembly(sizes: dict[str, int], target: TargetDescription = AMX) -> str:
    module = scheduled(product(sizes, w="o, k"))
    assert "dot = tdpbf16ps" in str(module)
    return emit_assembly(loops_to_llvm(module, target=target), target)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("rows", range(1, 33))
@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 31, 32])
def test_tiles_of_all_shapes_have_registers(rows: int, columns: int):
    text = assembly({"b": 64 + rows % 32, "o": 64 + columns % 32, "k": 34 * (8 + rows % 9)})
    assert "tdpbf16ps" in text


def test_no_tile_is_spilled():
    text = assembly({"b": 64, "o": 64, "k": 128})
    start = text.index("tdpbf16ps")
    loop = text[text.rindex("\n.LBB", 0, start) : start]
    assert text.count("tdpbf16ps") == 4
    assert "tilestored" not in loop


SHAPES = [
    {"b": 45, "o": 70, "k": 66},
    {"b": 32, "o": 32, "k": 1024},
    {"b": 40, "o": 33, "k": 1100},
    {"b": 300, "o": 300, "k": 301},
]


@has_amx
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("types", "x", "w", "y"),
    [
        (("bf16", "bf16"), "b, k", "k, o", "b, o"),
        (("bf16", "bf16"), "k, b", "o, k", "o, b"),
        (("i8", "i8"), "b, k", "o, k", "b, o"),
        (("ui8", "i8"), "b, k", "k, o", "b, o"),
    ],
)
def test_values(sizes: dict[str, int], types: tuple[str, str], x: str, w: str, y: str):
    text = product(sizes, x, w, y, types)
    module = scheduled(text)
    assert "dot = tdp" in str(module)
    expected = small_numbers(the_func(module))
    found, shared = ({label: array.copy() for label, array in expected.items()} for _ in range(2))
    run_func(the_func(parse_module(text)), expected)
    run_compiled(module, found)
    run_compiled(module, shared, threads=2)
    np.testing.assert_array_equal(found["y"], expected["y"])
    np.testing.assert_array_equal(shared["y"], expected["y"])


@has_amx
def test_sums_over_several_loops_are_added_in_blocks():
    sizes = {"b": 40, "o": 50, "i": 7, "j": 9, "k": 64}
    text = product(sizes, "i, j, b, k", "i, j, k, o", "b, o", summed="i, j, k")
    module = scheduled(text)
    expected = small_numbers(the_func(module))
    found = {label: array.copy() for label, array in expected.items()}
    run_func(the_func(parse_module(text)), expected)
    run_compiled(module, found)
    np.testing.assert_array_equal(found["y"], expected["y"])


# Processors with instructions on vectors, their registers, the features that run these, and operands.
VECTORS = [
    ("cascadelake", 64, {"avx512vnni"}, ("ui8", "i8"), "vpdpbusd"),
    ("cascadelake", 64, {"avx512vnni"}, ("i8", "ui8"), "vpdpbusd"),
    ("cascadelake", 64, {"avx512vnni"}, ("i8", "i8"), "vpdpbusd"),
    ("alderlake", 32, {"avxvnni"}, ("i8", "i8"), "vpdpbusd"),
    ("alderlake", 32, {"avxvnni"}, ("ui8", "i8"), "vpdpbusd"),
    ("x86-64-v3", 32, {"avx2"}, ("i8", "ui8"), "vpmaddwd"),
    ("x86-64-v4", 64, {"avx512bw"}, ("i8", "i8"), "vpmaddwd"),
    ("znver4", 64, {"avx512bf16"}, ("bf16", "bf16"), "vdpbf16ps"),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize(("cpu", "bytes", "features", "types", "name"), VECTORS)
def test_vectors(
    sizes: dict[str, int], cpu: str, bytes: int, features: set[str], types: tuple[str, str], name: str
):
    if not features <= host().features:
        pytest.skip(f"this processor has no {name}")
    text = product(sizes, "b, k", "o, k", "b, o", types)
    module = scheduled(text, cpu)
    assert f"dot = {name}" in str(module)
    expected = small_numbers(the_func(module))
    found = {label: array.copy() for label, array in expected.items()}
    run_func(the_func(parse_module(text)), expected)
    registers = processor(cpu).vector_registers
    run_compiled(module, found, target=replace(host(), vector_bytes=bytes, vector_registers=registers))
    np.testing.assert_array_equal(found["y"], expected["y"])


@pytest.mark.parametrize(
    ("cpu", "types", "name"),
    [
        ("neoverse-n1", ("i8", "i8"), "sdot"),
        ("neoverse-n1", ("ui8", "ui8"), "udot"),
        ("apple-m2", ("ui8", "i8"), "usdot"),
        ("alderlake", ("i8", "i8"), "vpdpbusd"),
        ("x86-64-v3", ("i8", "i8"), "vpmaddwd"),
        ("znver4", ("bf16", "bf16"), "vdpbf16ps"),
    ],
)
def test_no_accumulator_is_spilled(cpu: str, types: tuple[str, str], name: str):
    target = processor(cpu)
    text = emit_assembly(
        loops_to_llvm(scheduled(product({"b": 130, "o": 64, "k": 128}, types=types), cpu), target=target),
        target,
    )
    stack = [line for line in text.splitlines() if "Spill" in line and any(r in line for r in ("mm", "q"))]
    assert name in text
    assert stack == []


@pytest.mark.parametrize(("rows", "instructions"), [(130, 2 * 13 + 2), (12, 2 * (12 + 1))])
def test_sums_of_columns_are_added_up_once_for_all_blocks_of_rows(rows: int, instructions: int):
    module = scheduled(product({"b": rows, "o": 32, "k": 512}, types=("i8", "i8")), "znver4")
    text = loops_to_llvm(module, target=processor("znver4"))
    assert text.count(" = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512") == instructions
