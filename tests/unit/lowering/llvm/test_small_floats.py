"""Compiled conversions of small floats: of all numbers, in vectors and alone, on every processor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nests import parse_module, run_compiled
from support.small_floats import ALL, all_numbers, between, check_equal, rounded, stored
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.scalar.small_floats import Format
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.passes.analysis.targets.processors import nearest as nearest_level
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.host.jit import emit_assembly
from ocannl.runtime.host.processor import host
from ocannl.runtime.memory import aligned_array

LEAST = nearest_level(host().arch, ())

NATIVE = pytest.mark.parametrize("target", [LEAST, host()], ids=["bits", "instructions"])
SCHEDULES = pytest.mark.parametrize("schedule", ["", " schedule <lanes = i : 32>"], ids=["alone", "vectors"])
WIDE = pytest.mark.parametrize("wide", ["f32", "f64"])


def conversion(source: str, target: str, size: int, schedule: str = "") -> ModuleOp:
    widths = {"f64": 64, "f32": 32}
    op = "truncf" if widths.get(source, 0) > widths.get(target, 0) else "extf"
    return parse_module(f"""
loops.func @convert attributes {{arena = 0 : i64}} {{
  %x = assign.node "x" on_device because "data" : memref<{size}x{source}>
  %y = assign.node "y" on_device because "data" : memref<{size}x{target}>
  loops.nest "y" (i = {size}){schedule} {{
    %a = loops.load %x[i]
    %b = arith.{op} %a : {source} to {target}
    loops.store %b, %y[i]
  }}
}}""")


def convert(
    numbers: NDArray[Any], source: str, target: str, dtype: Any, schedule: str, cpu: TargetDescription
) -> NDArray[Any]:
    x, y = aligned_array(numbers.shape, numbers.dtype), aligned_array(numbers.shape, dtype)
    x[...] = numbers
    module = conversion(source, target, len(numbers), schedule)
    run_compiled(module, {"x": x, "y": y}, target=cpu)
    return y


@ALL
@WIDE
@NATIVE
@SCHEDULES
def test_every_number_is_widened(format: Format, wide: str, target: TargetDescription, schedule: str):
    numbers, dtype = all_numbers(format), np.float32 if wide == "f32" else np.float64
    found = convert(numbers, format.name, wide, dtype, schedule, target)
    assert found.dtype == dtype
    check_equal(found, numbers)


@ALL
@NATIVE
@SCHEDULES
def test_what_lies_between_is_rounded_to_even(format: Format, target: TargetDescription, schedule: str):
    numbers = between(format)
    found = convert(numbers, "f32", format.name, stored(format), schedule, target)
    check_equal(found, rounded(numbers, format))


def nearest(numbers: NDArray[np.float64], format: Format) -> NDArray[Any]:
    """By search among all numbers; the one after the largest stands for what is too large."""
    values = all_numbers(format)[: format.overflow].astype(np.float32).astype(np.float64)
    values = np.append(values, 2 * values[-1] - values[-2])
    sizes = np.minimum(np.abs(numbers), values[-1])
    above = np.searchsorted(values, sizes).clip(1)
    up, down = values[above] - sizes, sizes - values[above - 1]
    codes = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, above - 1)
    signs = np.signbit(numbers).astype(int) << (format.bits - 1)
    return (codes | signs).astype(f"uint{format.bits}").view(stored(format))


@ALL
@SCHEDULES
def test_a_double_is_rounded_once(format: Format, schedule: str):
    """Also next to the middle of two numbers, so near that an f32 is the middle."""
    middles = between(format).astype(np.float64)
    middles = middles[np.isfinite(middles)]
    tiny = np.array([5e-324, -5e-324, 1e-50, 1e300, -1e300])
    numbers = np.concatenate([middles, middles * (1 + 2.0**-40), middles * (1 - 2.0**-40), tiny])
    found = convert(numbers, "f64", format.name, stored(format), schedule, LEAST)
    check_equal(found, nearest(numbers, format))


@ALL
@NATIVE
@SCHEDULES
def test_what_is_chosen_among_small_numbers_stays(format: Format, target: TargetDescription, schedule: str):
    """Every number, NaN too, with its sign changed, or the greater of that and another one of the format."""
    numbers = all_numbers(format)
    x, y, z = (aligned_array(numbers.shape, stored(format)) for _ in range(3))
    x[...] = numbers
    text = f"""
loops.func @chosen attributes {{arena = 0 : i64}} {{
  %x = assign.node "x" constant : memref<{numbers.size}x{format.name}>
  %y = assign.node "y" on_device : memref<{numbers.size}x{format.name}>
  %z = assign.node "z" on_device : memref<{numbers.size}x{format.name}>
  loops.nest "y" (i = {numbers.size}) {schedule} {{
    %a = loops.load %x[i]
    %v = arith.extf %a : {format.name} to f32
    %n = arith.negf %v : f32
    %c = arith.constant 1.5 : f32
    %m = arith.maximumf %n, %c : f32
    %r = arith.truncf %n : f32 to {format.name}
    %s = arith.truncf %m : f32 to {format.name}
    loops.store %r, %y[i]
    loops.store %s, %z[i]
  }}
}}"""
    run_compiled(parse_module(text), {"x": x, "y": y, "z": z}, target=target)
    negative = -numbers.astype(np.float32)
    check_equal(y, negative)
    check_equal(z, np.maximum(negative, np.float32(1.5)))


CALL = re.compile(r"^\s+(?:callq?|bl|jmp|b)\s+([^.*\s]\S*)", re.MULTILINE)


@pytest.mark.sampled(3)
@ALL
@WIDE
@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "sapphirerapids", "cortex-a72"])
def test_no_processor_needs_a_library(format: Format, wide: str, name: str):
    for source, target in ((format.name, wide), (wide, format.name)):
        module = conversion(source, target, 37)
        SchedulePass(cpu=name).apply(Context(), module)
        PlanMemoryPass().apply(Context(), module)
        assembly = emit_assembly(loops_to_llvm(module, target=processor(name)), processor(name))
        called = set(CALL.findall(assembly)) - {"convert.y"}
        assert not called, assembly
