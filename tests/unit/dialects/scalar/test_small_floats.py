"""Conversions of small floats are those of `ml_dtypes` and NumPy: of all numbers, and what lies between."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from support.small_floats import ALL, all_numbers, between, check_equal, rounded, stored
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, Float16Type, f32, f64, i32

from ocannl.dialects.scalar.precisions import computed_in, dtype_name, float_or, widest
from ocannl.dialects.scalar.small_floats import Format, WordOp, narrow, small_bits, widen

Words = NDArray[np.uint32]
bf16, f16, f8E5M2, f8E4M3FN = BFloat16Type(), Float16Type(), Float8E5M2Type(), Float8E4M3FNType()

OPERATIONS = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "add": np.add,
    "sub": np.subtract,
    "shl": np.left_shift,
    "lshr": np.right_shift,
    "umin": np.minimum,
}
FLOAT_OPERATIONS = {"fadd": np.add, "fsub": np.subtract}


class NumPyWords:
    def word(self, value: int) -> Words:
        return np.array([value], np.uint32)

    def op(self, name: WordOp, a: Words, b: Words) -> Words:
        if name in FLOAT_OPERATIONS:
            return FLOAT_OPERATIONS[name](a.view(np.float32), b.view(np.float32)).view(np.uint32)
        return OPERATIONS[name](a, b)

    def below(self, a: Words, bound: int, yes: Words, no: Words) -> Words:
        return np.where(a < np.uint32(bound), yes, no)


def widened(numbers: NDArray[np.generic], format: Format) -> NDArray[np.float32]:
    bits = numbers.view(f"uint{format.bits}").astype(np.uint32)
    return widen(bits, format, NumPyWords()).view(np.float32)


def narrowed(numbers: NDArray[np.float32], format: Format) -> NDArray[np.generic]:
    with np.errstate(invalid="ignore"):
        bits = narrow(numbers.view(np.uint32), format, NumPyWords())
    return bits.astype(f"uint{format.bits}").view(stored(format))


@ALL
def test_every_number_is_widened(format: Format):
    numbers = all_numbers(format)
    check_equal(widened(numbers, format), numbers.astype(np.float32))


@ALL
def test_what_lies_between_is_rounded_to_even(format: Format):
    numbers = between(format)
    check_equal(narrowed(numbers, format), rounded(numbers, format))


@ALL
@given(bits=arrays.arrays(np.uint32, 64, elements=st.integers(0, 2**32 - 1)))
@settings(max_examples=24)
def test_any_bits_are_rounded(format: Format, bits: Words):
    numbers = bits.view(np.float32)
    check_equal(narrowed(numbers, format), rounded(numbers, format))


@ALL
def test_a_constant_has_the_nearest_bits(format: Format):
    assert small_bits(1.0, format) == format.bias << format.fraction
    assert small_bits(float("inf"), format) == format.overflow


def test_what_types_have_in_common():
    assert widest([bf16, i32, bf16]) == bf16
    assert widest([f8E5M2, f8E4M3FN]) == widest([f16, bf16]) == widest([f32, f8E5M2]) == f32
    assert widest([f64, bf16, f32]) == f64
    assert widest([i32]) is None
    assert [computed_in(t) for t in (f16, f8E4M3FN, f32, f64, i32)] == [f32, f32, f32, f64, f32]
    assert (float_or(bf16), float_or(i32)) == (bf16, f32)
    assert [dtype_name(t) for t in (bf16, f64, i32)] == ["bfloat16", "float64", "int32"]
