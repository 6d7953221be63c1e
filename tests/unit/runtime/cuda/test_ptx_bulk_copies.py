"""The interpreter's bulk copies and mbarriers, by kernels written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ptx.bulk_copies import TensorMap, rounded_to_even
from support.ptx.machine import launch
from support.ptx.memory import Counts, Global
from support.ptx.text import functions

Array = NDArray[Any]
START, MAP, RESULT = 1 << 33, 7, 1 << 34
# A box has 16 rows of 64 numbers, which are 128 bytes.
ROWS, COLUMNS, BOX_BYTES = 16, 64, 2048

BODY = """
.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0,
	.param .align 64 .b8 f_param_1[128]
)
{{
	.shared .align 1024 .b8 s[4096];
	.shared .align 8 .b8 m[8];
	ld.param.b64 	%rd1, [f_param_0];
	mov.b64 	%rd2, f_param_1;
	cvta.param.u64 	%rd3, %rd2;
	mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 5; mul.wide.u32 %rd4, %r1, 32; add.s64 %rd5, %rd1, %rd4;
	setp.eq.b32 	%p1, %r1, 0;
	mov.b32 %r3, s; mov.b32 %r4, m; mov.b32 %r5, {row}; mov.b32 %r6, {column}; mov.b32 %r8, {place};
	add.s32 %r7, %r3, %r2;
	@%p1 {init}
	{fence}
	{before}
	bar.sync 	0;
	@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], {bytes};
	@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
	[%r8], [%rd3, {{%r6, %r5}}], [%r4];
	{arrive}
	{between}
$L__BB0_1:
	// begin inline asm
	{wait}
	// end inline asm
	setp.eq.b32 	%p2, %r9, 0;
	@%p2 bra 	$L__BB0_1;
	ld.shared.v4.b32 	{{%r10, %r11, %r12, %r13}}, [%r7];
	ld.shared.v4.b32 	{{%r14, %r15, %r16, %r17}}, [%r7+16];
	st.global.v4.b32 	[%rd5], {{%r10, %r11, %r12, %r13}};
	st.global.v4.b32 	[%rd5+16], {{%r14, %r15, %r16, %r17}};
	{after}
	ret;

}}
"""
TEXTS: dict[str, Any] = {
    "init": "mbarrier.init.shared::cta.b64 [%r4], 1;",
    "fence": "fence.proxy.async.shared::cta;",
    "arrive": "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r4];",
    "wait": "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%r4], 0; selp.b32 %r9, 1, 0, p; }",
    **dict.fromkeys(("before", "between", "after"), ""),
    **dict.fromkeys(("row", "column", "place"), 0),
    "bytes": BOX_BYTES,
}
SIZES = (20, 72)


def tensor() -> Array:
    return np.arange(1, 1 + SIZES[0] * SIZES[1], dtype=np.uint16).reshape(SIZES)


def run(counts: Counts | None = None, apart: bool = True, **texts: Any) -> Array:
    """The bytes of shared memory after a copy, as numbers of 16 bits; each thread has seen 32 bytes."""
    text = BODY.format(**(TEXTS | texts))
    result = np.zeros(BOX_BYTES, np.uint8)
    memory = {START: tensor().reshape(-1).view(np.uint8), RESULT: result}
    map = TensorMap(START, 2, SIZES[::-1], [2 * SIZES[1]], (COLUMNS, ROWS))
    launch(functions(text)["f"], 1, 64, 0, [RESULT, MAP], Global(memory, {MAP: map}), counts, apart)
    return result.view(np.uint16).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("first", [(0, 0), (3, 16), (10, 40), (-2, 0)])
def test_a_box(first: tuple[int, int]):
    """Pieces of 16 bytes of row r have places p ^ r % 8; outside of the tensor are zeros."""
    expected = np.zeros((ROWS, COLUMNS), np.uint16)
    for row in range(ROWS):
        for column in range(COLUMNS):
            at = first[0] + row, first[1] + column
            if all(0 <= place < size for place, size in zip(at, SIZES, strict=True)):
                expected[row, 8 * (column // 8 ^ row % 8) + column % 8] = tensor()[at]
    np.testing.assert_array_equal(run(row=first[0], column=first[1]), expected)


def test_sectors_are_counted():
    counts = Counts()
    run(counts)
    (cost,) = [cost for op, cost in counts.sectors.items() if op.name == "cp"]
    # Rows of 144 bytes begin at parts of sectors.
    assert (cost.taken, cost.least) == (ROWS * 4 + ROWS // 2, BOX_BYTES // 32)


AGAIN = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r4];"
TOUCHES = {"write": "mov.b32 %r18, 0; st.shared.b32 [%r7], %r18;", "read": "ld.shared.b32 %r18, [%r7];"}
WRONG: dict[str, dict[str, Any]] = {
    "a phase expects 2032 bytes, and 2048 come": {"bytes": BOX_BYTES - 16},
    "a phase expects 4096 bytes, and 2048 come": {"bytes": 2 * BOX_BYTES},
    "that is not fenced": {"fence": ""},
    "there is no mbarrier": {"init": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 0;"},
    "an mbarrier is made twice": {"before": "@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;"},
    "more threads arrive than a phase has": {"between": AGAIN},
    "wait for a phase that does not end": {"arrive": ""},
    "nobody waits for a copy": {"between": "bar.sync 0;", "wait": "mov.b32 %r9, 1;"},
    "no multiple of 128 bytes": {"place": 64},
    "no multiple of 8 bytes": {"init": "mbarrier.init.shared::cta.b64 [%r4+4], 1;"},
    "outside of shared memory": {"place": 4096 - 1024},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong(message: str):
    with pytest.raises(AssertionError, match=message):
        run(**WRONG[message])


@pytest.mark.parametrize("how", TOUCHES)
def test_what_threads_touch_before(how: str):
    """Threads fence what they did before hardware overwrites it."""
    touch = TOUCHES[how]
    run(before=f"{touch} fence.proxy.async.shared::cta;")
    with pytest.raises(AssertionError, match="overwrites what threads touched and did not fence"):
        run(before=touch)


def test_what_is_read_before_it_has_come():
    early = "bar.sync 0; ld.shared.b32 %r18, [%r3];"
    found = run(
        apart=False, between=early, after="@%p1 bra $L__BB0_2; ret; $L__BB0_2: st.global.b32 [%rd5], %r18;"
    )
    assert found[0, 0] == 0xFFFF
    assert found[0, 2] == tensor()[0, 2]


def test_phases_have_parities():
    """The second phase of an mbarrier is another one than the first."""
    second = TEXTS["wait"].replace("[%r4], 0", "[%r4], 1")
    with pytest.raises(AssertionError, match="wait for a phase that does not end"):
        run(after=second)
    run(after=f"{AGAIN} {second}")


def test_rounding():
    """The bits were read from an H100, whose map was of type TFLOAT32."""
    seen = {
        0x3F801000: 0x3F800000,
        0x3F803000: 0x3F804000,
        0x3F801001: 0x3F802000,
        0xBF801000: 0xBF800000,
        0x7F800000: 0x7F800000,
        0x7FC00000: 0x7FFFE000,
        0xFFFFFFFF: 0x7FFFE000,
        0x7F7FFFFF: 0x7F800000,
        0x00001000: 0,
        0x007FFFFF: 0x00800000,
        0x3F802000: 0x3F802000,
    }
    found = rounded_to_even(np.array([*seen], np.uint32))
    np.testing.assert_array_equal(found, np.array([*seen.values()], np.uint32))
