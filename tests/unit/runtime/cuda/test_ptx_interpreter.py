"""The interpreter of PTX finds what would go wrong on a GPU, and counts what accesses to memory cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.ptx.arithmetic import fused
from support.ptx.machine import launch
from support.ptx.memory import Cost, Counts, Global
from support.ptx.text import functions

Array = NDArray[Any]
START, BEFORE = 1 << 33, "mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 4; add.s64 %rd2, %rd1, %rd9;\n"
HEAD = """
.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0
)
{
	.reg .b32 	%r<71>;
	.shared .align 16 .b8 s[8192];
	ld.param.b64 	%rd1, [f_param_0];
"""


def run(body: str, threads: int = 32, blocks: int = 1, apart: bool = False) -> tuple[Array, Counts]:
    """The words that a kernel leaves in memory, which are the numbers from 0 on before."""
    array = np.arange(1024, dtype=np.uint32)
    memory, counts = Global({START: array.view(np.uint8)}), Counts()
    (function,) = functions(f"{HEAD}{BEFORE}{body}\n\tret;\n\n}}\n").values()
    launch(function, blocks, threads, 0, [START], memory, counts, apart)
    return array, counts


def cost(costs: dict[Any, Cost]) -> tuple[int, int]:
    (found,) = costs.values()
    return found.taken, found.least


@pytest.mark.parametrize(("stride", "turns"), [(4, 1), (8, 2), (128, 32), (0, 1), (132, 1)])
def test_bank_conflicts(stride: int, turns: int):
    _, counts = run(f"mul.lo.s32 %r2, %r1, {stride}; ld.shared.b32 %r3, [%r2];")
    assert cost(counts.shared) == (turns, 1)


@pytest.mark.parametrize(("stride", "turns"), [(16, 4), (80, 4), (144, 4), (64, 16), (128, 32)])
def test_wide_accesses_go_in_rounds(stride: int, turns: int):
    text = f"mul.lo.s32 %r2, %r1, {stride}; ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];"
    assert cost(run(text)[1].shared) == (turns, 4)


@pytest.mark.parametrize(("stride", "least", "taken"), [(4, 4, 4), (8, 4, 8), (32, 4, 32), (0, 1, 1)])
def test_sectors(stride: int, least: int, taken: int):
    text = f"mul.wide.u32 %rd3, %r1, {stride}; add.s64 %rd4, %rd1, %rd3; ld.global.b32 %r2, [%rd4];"
    assert cost(run(text)[1].sectors) == (taken, least)


def test_threads_part_and_meet():
    """A loop that each thread leaves at its own time, and a shuffle after it."""
    found, _ = run("""
    mov.b32 %r2, 0;
$L__BB0_1:
    add.s32 %r2, %r2, 2;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra $L__BB0_1;
    shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;
    st.global.b32 [%rd2], %r3;""")
    own = np.maximum(2, (np.arange(32) + 1) // 2 * 2)
    np.testing.assert_array_equal(found[:32], own[np.arange(32) ^ 1])


def test_threads_meet_that_part_to_behind_a_loop():
    """In each turn of it some jump to what stands behind, and back; a loop in it ends sooner for some."""
    found, _ = run("""
    mov.b32 %r2, 0;
    mov.b32 %r3, 0;
    setp.lt.u32 %p1, %r1, 16;
$L__BB0_1:
    @%p1 bra $L__BB0_4;
$L__BB0_2:
    mov.b32 %r4, 0;
    bra $L__BB0_6;
$L__BB0_5:
    add.s32 %r4, %r4, 1;
$L__BB0_6:
    setp.lt.u32 %p2, %r4, %r1;
    @%p2 bra $L__BB0_5;
    shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;
    add.s32 %r3, %r3, %r5;
    add.s32 %r2, %r2, 1;
    setp.lt.u32 %p3, %r2, 3;
    @%p3 bra $L__BB0_1;
    st.global.b32 [%rd2], %r3;
    ret;
$L__BB0_4:
    add.s32 %r3, %r3, 100;
    bra $L__BB0_2;""")
    lanes = np.arange(32)
    np.testing.assert_array_equal(found[:32], 3 * ((lanes ^ 1) + 100 * (lanes < 16)))


def test_a_shuffle_needs_its_warp():
    with pytest.raises(AssertionError, match="shfl"):
        run("setp.lt.u32 %p1, %r1, 5; @%p1 bra $L1; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\n$L1: ret;")


EXCHANGE = """
    shl.b32 %r2, %r1, 2;
    st.shared.b32 [%r2], %r1;
    {barrier}
    sub.s32 %r3, 252, %r2;
    ld.shared.b32 %r4, [%r3];
    st.global.b32 [%rd2], %r4;"""


@pytest.mark.parametrize(("to", "found"), [("l", 0xF000000F), ("r", 0x0F000000)])
def test_a_funnel_shift(to: str, found: int):
    """By 36 places, of which 4 count."""
    text = f"mov.b32 %r2, 0xF0000000; mov.b32 %r3, 0x1F000000; shf.{to}.wrap.b32 %r4, %r2, %r3, 36;"
    array, _ = run(f"{text} st.global.b32 [%rd2], %r4;")
    assert array[0] == found


@pytest.mark.parametrize("apart", [False, True])
def test_barriers(apart: bool):
    found, _ = run(EXCHANGE.format(barrier="bar.sync 0;"), threads=64, apart=apart)
    np.testing.assert_array_equal(found[:64], np.arange(64)[::-1])


def test_a_barrier_that_is_missing():
    found, _ = run(EXCHANGE.format(barrier=""), threads=64, apart=True)
    expected = [*range(63, 31, -1), *[0xFFFFFFFF] * 32]
    np.testing.assert_array_equal(found[:64], expected)


def test_barriers_that_differ():
    with pytest.raises(AssertionError, match="different barriers"):
        run("setp.lt.u32 %p1, %r1, 32; @%p1 bra $L1; bar.sync 0; ret;\n$L1: bar.sync 0;", threads=64)


@pytest.mark.parametrize(("pending", "arrived"), [(0, 2), (1, 1), (2, 0)])
def test_copies_arrive_when_they_are_waited_for(pending: int, arrived: int):
    found, _ = run(f"""
    shl.b32 %r2, %r1, 2;
    cp.async.ca.shared.global [%r2], [%rd2], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r2+128], [%rd2+4], 4, 0;
    cp.async.commit_group;
    cp.async.wait_group {pending};
    ld.shared.b32 %r3, [%r2];
    st.global.b32 [%rd2+256], %r3;
    ld.shared.b32 %r3, [%r2+128];
    st.global.b32 [%rd2+512], %r3;""")
    nothing = np.full(32, 0xFFFFFFFF)
    np.testing.assert_array_equal(found[64:96], np.arange(32) if arrived else nothing)
    np.testing.assert_array_equal(found[128:160], np.zeros(32) if arrived == 2 else nothing)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ld.global.b64 %rd3, [%rd2+4];", "no multiple of 8"),
        ("ld.shared.v2.b32 {%r3, %r4}, [4];", "no multiple of 8"),
        ("ld.global.b32 %r3, [%rd2+4096];", "outside of an array"),
        ("ld.global.b32 %r3, [%rd2+-4];", "outside of all arrays"),
        ("mov.b32 %r2, 8192; ld.shared.b32 %r3, [%r2];", "outside of shared"),
        ("ld.global.nc.b32 %r3, [%rd2]; st.global.b32 [%rd2+124], %r3;", "constant is written"),
        ("cp.async.cg.shared.global [0], [%rd2], 16; cp.async.wait_group 0;", "multiple of 16|aligned"),
    ],
)
def test_wrong_accesses(text: str, message: str):
    if "[0]" in text or "[4]" in text:
        text = "mov.b32 %r9, 0;" + text.replace("[0]", "[%r9]").replace("[4]", "[%r9+4]")
        text = text.replace("cp.async.wait_group", "cp.async.commit_group; cp.async.wait_group")
    with pytest.raises(AssertionError, match=message):
        run(text)


NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_fused_operations_are_rounded_once(x: float, y: float, z: float):
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    with np.errstate(all="ignore"):
        (found,) = fused(*(np.array([v], np.float32) for v in (x, y, z)))
        if not np.isfinite(found) or abs(found) < 2.0**-120:
            return
        others = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
    errors = [abs(Fraction(float(v)) - exact) for v in others if np.isfinite(v)]
    assert abs(Fraction(float(found)) - exact) <= min(errors)
