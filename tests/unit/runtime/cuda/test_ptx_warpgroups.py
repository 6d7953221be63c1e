"""The interpreter's products of warpgroups, on matrices that are written to shared memory by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.ptx.machine import launch
from support.ptx.memory import Global
from support.ptx.text import functions
from support.ptx.warpgroups import ELEMENTS

Array = NDArray[Any]
START, COLUMNS = 1 << 33, 128
# The matrices lie one after the other: 64 rows or columns take 64 x 128 bytes.
LEFT_BYTES, RIGHT_BYTES = 64 * 128, COLUMNS * 128
ADDRESS, LEADING, STRIDE, SWIZZLED = 0, 16, 32, 1 << 62


def swizzled(matrix: Array, is_transposed: bool) -> Array:
    """The bytes of a matrix with rows of 128 bytes, by the figures of the documentation: 8 such rows are a
    part, in which the pieces of 16 bytes of row r have places p ^ r.
    """
    parts = np.split(matrix, matrix.shape[0] // 64) if is_transposed else [matrix]
    rows = np.concatenate([part.T if is_transposed else part for part in parts])
    pieces = np.ascontiguousarray(rows).view(np.uint8).reshape(-1, 8, 16)
    row, piece = np.arange(len(pieces))[:, None], np.arange(8)
    found = np.empty_like(pieces)
    found[row, piece ^ row % 8] = pieces
    return found.reshape(-1)


def descriptor(start: int, is_transposed: bool) -> int:
    leading = 64 * 128 if is_transposed else 16
    return start >> 4 << ADDRESS | leading >> 4 << LEADING | 1024 >> 4 << STRIDE | SWIZZLED


BODY = """
.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0
)
{{
	.shared .align 1024 .b8 s[{bytes}];
	ld.param.b64 	%rd1, [f_param_0];
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mul.wide.u32 %rd9, %r1, 16; add.s64 %rd2, %rd1, %rd9;
{copies}
    cp.async.commit_group;
    cp.async.wait_group 0;
    {fence}
    bar.sync 0;
{zeros}
    {ready}
{products}
    wgmma.commit_group.sync.aligned;
    {between}
    wgmma.wait_group.sync.aligned 0;
    {after}
    mul.wide.u32 %rd8, %r1, {row}; add.s64 %rd7, %rd1, %rd8;
{stores}
	ret;

}}
"""
DEPTHS = {"tf32": 8, "e4m3": 32, "e5m2": 32}
TEXTS = {
    "fence": "fence.proxy.async.shared::cta;",
    "ready": "wgmma.fence.sync.aligned;",
    "between": "",
    "after": "",
}


def run(
    type: str,
    left: Array,
    right: Array,
    turned: tuple[bool, bool],
    apart: bool = False,
    in_registers: bool = False,
    starts: bool = False,
    **texts: str,
) -> Array:
    """The product of matrices of 64 and of some rows, of depth 64; of 32 in TF32, of 128 with 8 bits."""
    count = COLUMNS // 2
    total = LEFT_BYTES + RIGHT_BYTES
    names = [f"%r{10 + k}" for k in range(count)]
    products: list[str] = []
    depth = DEPTHS.get(type, 16)
    modes = "" if type in DEPTHS else "".join(f", {int(t)}" for t in turned[in_registers:])
    for step in range(4):
        places = [2048 * step if t else 32 * step for t in turned]
        described = [
            descriptor(at + place, t) for at, place, t in zip((0, LEFT_BYTES), places, turned, strict=True)
        ]
        own = ", ".join(f"%r{200 + 4 * step + k}" for k in range(4))
        first = f"{{{own}}}" if in_registers else "%rd5"
        products.append(
            f"mov.b64 %rd5, {described[0]}; mov.b64 %rd6, {described[1]};\n"
            f"wgmma.mma_async.sync.aligned.m64n{COLUMNS}k{depth}.f32.{type}.{type} {{{', '.join(names)}}}, "
            f"{first}, %rd6, {int(step > 0 or not starts)}, 1, 1{modes};"
        )
    offsets = range(0, total, 128 * 16)
    text = BODY.format(
        bytes=total,
        copies="\n".join(f"cp.async.cg.shared.global [%r2+{o}], [%rd2+{o}], 16;" for o in offsets),
        zeros="\n".join(f"mov.b32 {name}, 0;" for name in names),
        products="\n".join(products),
        row=4 * count,
        stores="\n".join(f"st.global.b32 [%rd7+{total + 4 * k}], {name};" for k, name in enumerate(names)),
        **(TEXTS | texts),
    )
    matrices = [swizzled(m.astype(ELEMENTS[type]), t) for m, t in zip((left, right), turned, strict=True)]
    if in_registers:
        matrices[0] = left.astype(ELEMENTS[type]).reshape(-1).view(np.uint8)
    memory = np.concatenate([*matrices, np.zeros(64 * COLUMNS * 4, np.uint8)])
    launch(functions(text)["f"], 1, 128, 0, [START], Global({START: memory}), apart=apart)
    return memory[total:].view(np.float32).reshape(128, count)


def matrices() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-8, 9, (rows, 64)).astype(np.float32) for rows in (64, COLUMNS))
    return left, right


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products(turned: tuple[bool, bool], type: str):
    """Thread 32 w + 4 g + t has row 16 w + g + 8 h and column 8 j + 2 t + c in register 4 j + 2 h + c."""
    left, right = matrices()
    found, expected = run(type, left, right, turned, apart=turned[0]), left @ right.T
    thread, register = np.arange(128)[:, None], np.arange(COLUMNS // 2)
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register // 2 % 2)
    column = 8 * (register // 4) + 2 * (thread % 4) + register % 2
    np.testing.assert_array_equal(found, expected[row, column])


def test_products_of_tf32():
    """The hardware does not look at the last 13 bits."""
    left, right = (np.ascontiguousarray(matrix[:, :32]) for matrix in matrices())
    found, expected = run("tf32", left, right, (False, False)), left @ right.T
    np.testing.assert_array_equal(found[0, :2], expected[0, :2])
    np.testing.assert_array_equal(np.sort(found, axis=None), np.sort(expected, axis=None))
    more = (left.view(np.uint32) | np.uint32(0x1FFF)).view(np.float32)
    np.testing.assert_array_equal(run("tf32", more, right, (False, False)), found)


@pytest.mark.parametrize("type", ["e4m3", "e5m2"])
def test_products_of_8_bits(type: str):
    """Sums that start with them do so whatever registers have."""
    left, right = (np.concatenate([m, m[:, ::-1]], 1) for m in matrices())
    left, right = (m.astype(ELEMENTS[type]).astype(np.float32) for m in (left, right))
    expected = np.sort(left @ right.T, axis=None)
    ones = f"mov.b32 %r10, {np.float32(1).view(np.uint32)}; {TEXTS['ready']}"
    found = run(type, left, right, (False, False), ready=ones, starts=True)
    np.testing.assert_array_equal(np.sort(found, axis=None), expected)
    more = run(type, left, right, (False, False), ready=ones)
    np.testing.assert_array_equal(more - found, np.arange(COLUMNS // 2) == np.zeros((128, 1)))


# Where a thread finds the left operand in rows of 32 words, and which registers it loads for a step.
OWN_ROW = """
    shr.u32 %r3, %r1, 5; shl.b32 %r3, %r3, 4; and.b32 %r4, %r1, 31; shr.u32 %r5, %r4, 2;
    add.s32 %r3, %r3, %r5;
    shl.b32 %r3, %r3, 5; and.b32 %r5, %r1, 3; add.s32 %r3, %r3, %r5;
    mul.wide.u32 %rd5, %r3, 4; add.s64 %rd5, %rd1, %rd5;
"""


def loaded(step: int) -> str:
    """The row g + 8 h and the word t + 4 q of a step is in register 2 q + h."""
    places = [
        (32 * step + 16 * q + 1024 * h, f"%r{200 + 4 * step + 2 * q + h}") for q in (0, 1) for h in (0, 1)
    ]
    return "".join(f"ld.global.b32 {name}, [%rd5+{place}];\n" for place, name in places)


@pytest.mark.parametrize("type", ["tf32", "bf16", "f16"])
def test_a_left_operand_in_registers(type: str):
    left, right = (np.ascontiguousarray(m[:, : 32 if type == "tf32" else 64]) for m in matrices())
    ready, turned = "".join([OWN_ROW, *map(loaded, range(4)), TEXTS["ready"]]), (False, type == "bf16")
    expected = run(type, left, right, turned)
    found = run(type, left, right, turned, in_registers=True, ready=ready)
    np.testing.assert_array_equal(found, expected)
    change = "mov.b32 %r201, 0;"
    with pytest.raises(AssertionError, match="a register of a product is overwritten"):
        run(type, left, right, turned, in_registers=True, ready=ready, between=change)


WRONG = {
    "what is not fenced": {"fence": ""},
    "registers are not fenced": {"ready": ""},
    "overwritten before": {"between": "mov.b32 %r3, 0; st.shared.b32 [%r3], %r1;"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_out_of_order(message: str):
    with pytest.raises(AssertionError, match=message):
        run("bf16", *matrices(), (False, False), False, False, False, **WRONG[message])


def test_sums_are_not_there_before_the_wait():
    found = run("f16", *matrices(), (False, False), between="mov.b32 %r3, %r10;", after="mov.b32 %r10, %r3;")
    assert np.all(np.isnan(found[:, 0]))
    assert not np.any(np.isnan(found[:, 1:]))


def test_the_last_group_may_go_on():
    """A wait for all groups but one is none for a single one; it is one where an empty group follows."""
    read, taken = "mov.b32 %r3, %r10;", "mov.b32 %r10, %r3;"
    one_left = "wgmma.wait_group.sync.aligned 1;"
    found = run("f16", *matrices(), (False, False), between=f"{one_left} {read}", after=taken)
    assert np.all(np.isnan(found[:, 0]))
    another = f"wgmma.commit_group.sync.aligned; {one_left} {read}"
    found = run("f16", *matrices(), (False, False), between=another, after=taken)
    assert not np.any(np.isnan(found))
