"""The interpreter's registers of warpgroups, and barriers of some threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ptx.machine import launch
from support.ptx.memory import Global
from support.ptx.text import functions

RESULT, THREADS = 1 << 33, 384
# The first 256 threads exchange values by shared memory, at a barrier of their own; others go past it.
BODY = """
.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0
)
{{
	.shared .align 16 .b8 s[1024];
	ld.param.b64 	%rd1, [f_param_0];
	mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
	mov.b32 %r2, s; shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3;
	setp.lt.u32 %p1, %r1, 256;
	@%p1 bra $L__BB0_1;
	{fewer}
	{passing}
	mov.b32 %r5, 7;
	bra.uni $L__BB0_2;
$L__BB0_1:
	{more}
	st.shared.b32 [%r4], %r1;
	{meeting}
	xor.b32 %r6, %r3, 1020; add.s32 %r7, %r2, %r6;
	ld.shared.b32 %r5, [%r7];
$L__BB0_2:
	st.global.b32 [%rd3], %r5;
	ret;

}}
"""
TEXTS = {
    "fewer": "setmaxnreg.dec.sync.aligned.u32 40;",
    "more": "setmaxnreg.inc.sync.aligned.u32 232;",
    "passing": "",
    "meeting": "bar.sync 1, 256;",
}


def run(**texts: str) -> NDArray[Any]:
    result = np.zeros(4 * THREADS, np.uint8)
    text = BODY.format(**(TEXTS | texts))
    launch(functions(text)["f"], 1, THREADS, 0, [RESULT], Global({RESULT: result}), apart=True)
    return result.view(np.uint32)


def test_a_barrier_of_some_threads():
    found = run()
    np.testing.assert_array_equal(found[:256], np.arange(256)[::-1])
    np.testing.assert_array_equal(found[256:], np.full(128, 7))


def test_without_a_barrier():
    """Warps that go on alone read what others have not written."""
    assert not np.array_equal(run(meeting="")[:256], np.arange(256)[::-1])


WRONG = {
    "a multiple of 8 registers": {"more": "setmaxnreg.inc.sync.aligned.u32 236;"},
    "24 to 256 registers": {"fewer": "setmaxnreg.dec.sync.aligned.u32 16;"},
    "registers go the other way": {"more": "setmaxnreg.inc.sync.aligned.u32 160;"},
    "wait for registers that others have": {"more": "setmaxnreg.inc.sync.aligned.u32 240;"},
    "warps of a warpgroup have other counts": {
        "fewer": f"setp.lt.u32 %p2, %r1, 288; @%p2 bra $L__BB0_3; {TEXTS['fewer']} $L__BB0_3:"
    },
    "threads of a block wait at different barriers": {"meeting": "bar.sync 1, 384;"},
    "a barrier is for whole warps": {"meeting": "bar.sync 1, 250;"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong(message: str):
    with pytest.raises(AssertionError, match=message):
        run(**WRONG[message])


def test_two_barriers_at_a_time():
    """Others may wait at one of another number, and not for another count at the same one."""
    run(passing="bar.sync 2, 128;")
    with pytest.raises(AssertionError, match="wait at different barriers"):
        run(passing="bar.sync 1, 128;")
