"""Loops that run when the program runs, from the text of assignments to code, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from support.cuda_on_cpu import FakeDriver, install
from support.interpret_loops import run_func
from support.loop_programs import repeating_programs
from support.metal_on_cpu import COMPILER, FakeDevice, install_metal
from support.nests import compare, parse_module, random_arrays, run_compiled
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.assign_to_loops import LowerAssignToLoopsPass
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.pipelines import PIPELINES, module_text, new_context, parse_text, run_passes
from ocannl.runtime.cuda.device import CudaDevice
from ocannl.runtime.device import Device
from ocannl.runtime.interface import Interface, the_func
from ocannl.runtime.memory import ArgBlock
from ocannl.runtime.metal import MetalDevice

Arrays = dict[str, NDArray[Any]]


def compiled(text: str, target: str) -> ModuleOp:
    module, passes = parse_module(text), PIPELINES[target]
    run_passes(module, passes[passes.index(LowerAssignToLoopsPass) :], verify=True)
    assert module_text(parse_module(module_text(module))) == module_text(module)
    return module


def run(text: str, arrays: Arrays, indices: dict[str, int] | None = None, threads: int = 1) -> Arrays:
    """A program on arrays, by the CPU and by an emulated GPU, also with checked accesses."""
    found: list[Arrays] = []
    for target in ("cpu", "gpu"):
        module = compiled(text, target)
        for emulation in (None, Emulation(check=True)):
            found.append({label: np.array(array) for label, array in arrays.items()})
            run_compiled(module, found[-1], indices, threads, emulation)
    for again in found:
        compare(again, found[0], 1e-6)
    return found[0]


def counting(count: int) -> str:
    return f"""
assign.routine @count.body indices (t = {count}) {{
  %n = assign.node "n" on_device : memref<1xi32>
  %at = assign.embed t : i32
  assign.accum %n[0] add= %at over ()
}}
assign.routine @count {{
  %n = assign.node "total" on_device : memref<1xi32>
  assign.repeat @count.body t = {count} ("n" = %n)
}}"""


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_the_index_runs_from_zero_to_the_count(count: int):
    (total,) = run(counting(count), {"total": np.array([7], np.int32)})["total"]
    assert total == 7 + sum(range(count))


def test_a_running_sum_reads_its_carry_and_writes_a_sequence():
    text = """
assign.routine @sums.body indices (t = 9, step) {
  %x = assign.node "x" on_device : memref<2x9x3xf64>
  %s = assign.node "s" on_device : memref<3xf64>
  %ys = assign.node "ys" on_device : memref<9x3xf64>
  assign.accum %s[i] add= %x[step, t, i] over (i = 3)
  assign.accum %ys[t, i] = %s[i] over (i = 3)
}
assign.routine @sums indices (step) {
  %x = assign.node "x" on_device : memref<2x9x3xf64>
  %s = assign.node "s" local : memref<3xf64>
  %ys = assign.node "ys" on_device : memref<9x3xf64>
  %last = assign.node "last" on_device : memref<3xf64>
  assign.accum %s[i] = 0.0 over (i = 3)
  assign.repeat @sums.body t = 9 ("x" = %x, "s" = %s, "ys" = %ys)
  assign.accum %last[i] = %s[i] over (i = 3)
}"""
    x = np.random.default_rng(1).standard_normal((2, 9, 3))
    found = run(text, {"x": x, "ys": np.zeros((9, 3)), "last": np.zeros(3)}, {"step": 1})
    np.testing.assert_array_equal(found["ys"], np.cumsum(x[1], 0))
    np.testing.assert_array_equal(found["last"], np.cumsum(x[1], 0)[-1])


def test_what_is_computed_before_it_is_stored_is_from_the_iteration_before():
    text = """
assign.routine @fibonacci.body indices (t = 20) {
  %a = assign.node "a" on_device : memref<1xi64>
  %b = assign.node "b" on_device : memref<1xi64>
  %next = assign.node "next" local : memref<1xi64>
  assign.accum %next[0] = add(%a[0], %b[0]) over ()
  assign.accum %a[0] = %b[0] over ()
  assign.accum %b[0] = %next[0] over ()
}
assign.routine @fibonacci {
  %a = assign.node "a" local : memref<1xi64>
  %b = assign.node "b" on_device : memref<1xi64>
  assign.accum %a[0] = 0 over ()
  assign.accum %b[0] = 1 over ()
  assign.repeat @fibonacci.body t = 20 ("a" = %a, "b" = %b)
}"""
    assert run(text, {"b": np.zeros(1, np.int64)})["b"] == 10946


POWER = """
assign.routine @power.body indices (t = 6) {
  %m = assign.node "m" on_device : memref<40x40xf64>
  %p = assign.node "p" on_device : memref<40x40xf64>
  %next = assign.node "next" local : memref<40x40xf64>
  assign.accum %next[i, j] :add= mul(%p[i, k], %m[k, j]) over (i = 40, j = 40, k = 40)
  assign.accum %p[i, j] = %next[i, j] over (i = 40, j = 40)
}
assign.routine @power {
  %m = assign.node "m" on_device : memref<40x40xf64>
  %p = assign.node "p" on_device : memref<40x40xf64>
  %twice = assign.node "twice" local : memref<40x40xf64>
  %kept = assign.node "kept" on_device : memref<40x40xf64>
  assign.accum %twice[i, j] = add(%m[i, j], %m[i, j]) over (i = 40, j = 40)
  assign.accum %p[i, j] = %m[i, j] over (i = 40, j = 40)
  assign.repeat @power.body t = 6 ("m" = %m, "p" = %p)
  assign.accum %kept[i, j] = tanh(%twice[i, j]) over (i = 40, j = 40)
  assign.repeat @power.body t = 6 ("m" = %twice, "p" = %p)
}"""


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_body_with_an_arena_runs_from_two_places(threads: int):
    m = np.random.default_rng(2).standard_normal((40, 40)) / 7
    found = run(POWER, {"m": m, "p": np.zeros((40, 40)), "kept": np.zeros((40, 40))}, threads=threads)
    expected = np.linalg.matrix_power(m, 7) @ np.linalg.matrix_power(2 * m, 6)
    np.testing.assert_allclose(found["p"], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["kept"], np.tanh(2 * m), rtol=1e-9)


NESTED = """
assign.routine @inner indices (k = 3, t = 4, step) {
  %n = assign.node "n" on_device : memref<1xf32>
  %seen = assign.node "seen" on_device : memref<4x3xf32>
  %place = assign.embed 10*t + k + 100*step : f32
  assign.accum %n[0] add= 1.0 over ()
  assign.accum %seen[t, k] = add(%n[0], %place) over ()
}
assign.routine @outer indices (t = 4, step) {
  %seen = assign.node "table" on_device : memref<4x3xf32>
  %n = assign.node "count" on_device : memref<1xf32>
  assign.accum %n[0] add= 0.5 over ()
  assign.repeat @inner k = 3 ("n" = %n, "seen" = %seen)
}
assign.routine @main indices (step) {
  %n = assign.node "n" local : memref<1xf32>
  %seen = assign.node "seen" on_device : memref<4x3xf32>
  assign.accum %n[0] = 0.0 over ()
  assign.repeat @outer t = 4 ("table" = %seen, "count" = %n)
}"""


def nested() -> NDArray[Any]:
    expected, n = np.zeros((4, 3)), 0.0
    for t in range(4):
        n += 0.5
        for k in range(3):
            n += 1
            expected[t, k] = n + 10 * t + k + 200
    return expected


def test_loops_nest():
    found = run(NESTED, {"seen": np.zeros((4, 3), np.float32)}, {"step": 2})["seen"]
    np.testing.assert_array_equal(found, nested())


def halving(flag: str, going: str, first: str = "1") -> str:
    """Halves a number while it is above a limit; a first flag of 0 leaves it."""
    return f"""
assign.routine @halve.body indices (t = 100) {{
  %x = assign.node "x" on_device : memref<1xf32>
  %going = assign.node "going" on_device : memref<1x{flag}>
  %n = assign.node "n" on_device : memref<1xi32>
  assign.accum %x[0] = mul(%x[0], 0.5) over ()
  assign.accum %going[0] = {going} over ()
  assign.accum %n[0] add= 1 over ()
}}
assign.routine @halve {{
  %x = assign.node "x" on_device : memref<1xf32>
  %n = assign.node "n" on_device : memref<1xi32>
  %going = assign.node "going" local : memref<1x{flag}>
  assign.accum %going[0] = {first} over ()
  assign.accum %n[0] = 0 over ()
  assign.repeat @halve.body t = 100 while %going ("x" = %x, "going" = %going, "n" = %n)
}}"""


LESS = "lt(0.01, %x[0])"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("flag", "going"),
    [
        ("i1", LESS),
        ("i32", LESS),
        ("ui8", LESS),
        ("i64", LESS),
        ("f64", LESS),
        ("bf16", LESS),
        ("f32", f"neg({LESS})"),
    ],
)
def test_a_loop_stops_where_its_flag_is_zero(flag: str, going: str):
    one = "1.0" if flag.startswith(("f", "b")) else "1"
    arrays: Arrays = {"x": np.ones(1, np.float32), "n": np.zeros(1, np.int32)}
    found = run(halving(flag, going, one), arrays)
    assert (found["x"], found["n"]) == (2.0**-7, 7)
    found = run(halving(flag, going, "0.0" if one == "1.0" else "0"), arrays)
    assert (found["x"], found["n"]) == (1, 0)


@pytest.mark.exhaustive
def test_a_body_may_have_many_kernels():
    nodes = "".join(f'%n{k} = assign.node "n{k}" on_device : memref<{k + 1}xf32>\n' for k in range(40))
    body = "".join(f"assign.accum %n{k}[i] add= 1.0 over (i = {k + 1})\n" for k in range(40))
    bound = ", ".join(f'"n{k}" = %n{k}' for k in range(40))
    text = f"""
assign.routine @many.body indices (t = 3) {{ {nodes} {body} }}
assign.routine @many {{ {nodes} {body} assign.repeat @many.body t = 3 ({bound}) }}"""
    arrays: Arrays = {f"n{k}": np.full(k + 1, k, np.float32) for k in range(40)}
    for label, array in run(text, arrays).items():
        np.testing.assert_array_equal(array, arrays[label] + 4)


def test_a_loop_that_does_not_fit_to_its_body_is_an_error():
    """A text is verified when it is read; what other passes make is not."""
    module = parse_text(
        counting(3).replace('"total" on_device : memref<1xi32>', '"total" on_device : memref<1xi1>')
    )
    with pytest.raises(OcannlError, match="'n' is a memref<1xi32>, bound to a memref<1xi1>"):
        LowerAssignToLoopsPass().apply(new_context(), module)


@pytest.mark.exhaustive
@settings(max_examples=12, deadline=None)
@given(text=repeating_programs())
def test_random_programs_with_loops(text: str):
    """By the code for the CPU and on the emulated GPU, against the interpreter."""
    func = the_func(parse_module(text))
    start = {label: np.asarray(np.round(2 * array)) for label, array in random_arrays(func).items()}
    expected = {label: array.copy() for label, array in start.items()}
    run_func(func, expected, {"s": 1})
    for target in ("cpu", "gpu"):
        found = {label: array.copy() for label, array in start.items()}
        run_compiled(compiled(text, target), found, {"s": 1}, 2, Emulation(shuffle=3))
        compare(found, expected, 1e-9)


def run_on(
    device: Device, target: str, text: str, arrays: Arrays, indices: dict[str, int] | None = None
) -> Arrays:
    """The arrays that a program makes of others in the memory of a device, in its second run."""
    module = compiled(text, target)
    interface = Interface.of(the_func(module))
    program, layout = device.program(device.text(module), interface), interface.layout
    args, memory = ArgBlock(layout.slots), {k: device.memory(a.shape, a.dtype) for k, a in arrays.items()}
    arena = device.memory((max(1, layout.arena_bytes),), np.uint8)
    args.set_address(layout.arena_slot, arena.address, arena)
    for label, slot in layout.node_slots.items():
        args.set_address(slot, memory[label].address, memory[label])
    run = program.bind(args)
    for k in range(2):
        for label, array in arrays.items():
            memory[label].write(array)
        for slot, name in enumerate(layout.indices, layout.index_slot):
            args.values[slot] = (indices or {})[name] - 1 + k
        run.call()
        device.synchronize()
    return {label: array.read() for label, array in memory.items()}


def cuda(monkeypatch: pytest.MonkeyPatch) -> tuple[Device, str]:
    install(monkeypatch, FakeDriver())
    return CudaDevice(0), "gpu"


def metal(monkeypatch: pytest.MonkeyPatch) -> tuple[Device, str]:
    install_metal(monkeypatch, FakeDevice())
    return MetalDevice(), "metal"


NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", [cuda, pytest.param(metal, marks=NEEDS_COMPILER)])
def test_hosts_of_gpus_run_loops(
    backend: Callable[[pytest.MonkeyPatch], tuple[Device, str]], monkeypatch: pytest.MonkeyPatch
):
    on = backend(monkeypatch)
    seen = run_on(*on, NESTED, {"seen": np.zeros((4, 3), np.float32)}, {"step": 2})["seen"]
    np.testing.assert_array_equal(seen, nested())
    power = POWER.replace("f64", "f32")
    m = np.random.default_rng(2).standard_normal((40, 40)).astype(np.float32) / 7
    arrays: Arrays = {"m": m, "p": np.zeros_like(m), "kept": np.zeros_like(m)}
    compare(run_on(*on, power, arrays), run(power, arrays), 1e-5)
    for first, expected in (("1.0", (2.0**-7, 7)), ("0.0", (1, 0))):
        halved: Arrays = {"x": np.ones(1, np.float32), "n": np.zeros(1, np.int32)}
        found = run_on(*on, halving("f32", f"neg({LESS})", first), halved)
        assert (found["x"], found["n"]) == expected
