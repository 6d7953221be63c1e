"""The results of the scalar instructions of PTX, with an element a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

TYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{8 * size}": np.dtype(f"u{size}") for kind in "bu" for size in (1, 2, 4, 8)},
    **{f"s{8 * size}": np.dtype(f"i{size}") for size in (1, 2, 4, 8)},
    **{f"f{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "pred": np.dtype(bool),
}
# The bits of an f64 that an f32 lacks, and those of one in the middle between two of these.
DROPPED, MIDDLE = np.uint64((1 << 29) - 1), np.uint64(1 << 28)
LEAST_NORMAL = 2.0**-126


# What is computed in f32 and is not a number.
CANONICAL = np.uint32(0x7FFFFFFF)
KEEPS_BITS = {"neg", "abs", "copysign"}
# The bits of an approximate tanh.
TANH_BITS = np.uint32(0xFFFFF000)


def elementwise(name: str, *operands: Array, flushes: bool = False) -> Array:
    """The result of an instruction, which may take subnormal numbers as 0. That of arithmetic in f32 has one
    NaN.
    """
    if flushes:
        return flushed(elementwise(name, *map(flushed, operands)))
    found = ELEMENTWISE[name](*operands)
    if found.dtype == np.float32 and name not in KEEPS_BITS and np.isnan(found).any():
        return np.where(np.isnan(found), CANONICAL.view(np.float32), found)
    return found


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < LEAST_NORMAL, np.copysign(np.zeros_like(x), x), x)


def approximate_tanh(x: Array) -> Array:
    """As far from the tanh as the approximation may be, by less than 2^-11 of it."""
    return (np.tanh(wide(x)).astype(np.float32).view(np.uint32) & TANH_BITS).view(np.float32)


def fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z, rounded once."""
    if x.dtype != np.float32:
        return fused_wide(x, y, z) if x.dtype == np.float64 else (wide(x) * wide(y) + wide(z)).astype(x.dtype)
    product, added = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + added)
    near = (total.view(np.uint64) & DROPPED == MIDDLE) | (np.abs(total) < LEAST_NORMAL)
    if np.any(near):
        total = np.where(near & np.isfinite(total), to_odd(product, added, total), total)
    return total.astype(np.float32)


def fused_wide(x: Array, y: Array, z: Array) -> Array:
    """In f64, by the errors of the product and of the sum (Dekker, 1971)."""
    product = x * y
    (x1, x2), (y1, y2) = halves(x), halves(y)
    error = x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)
    total = product + z
    part = total - product
    found = total + (((product - (total - part)) + (z - part)) + error)
    return np.where(np.isfinite(found), found, total)


def halves(x: Array) -> tuple[Array, Array]:
    """Two numbers of 26 bits with x as their sum."""
    moved = x * (2.0**27 + 1)
    high = moved - (moved - x)
    return high, x - high


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def to_odd(x: Array, y: Array, total: Array) -> Array:
    """x + y, whose rounded sum is `total`, rounded to the neighbour with an odd last bit if it is none."""
    part = total - x
    error = (x - (total - part)) + (y - part)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (bits & 1 == 0), bits + away, bits).view(np.float64)


def shifted_left(x: Array, count: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.where(count < bits, x << np.minimum(count, bits - 1).astype(x.dtype), 0).astype(x.dtype)


def shifted_right(x: Array, count: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    moved = x >> np.minimum(count, bits - 1).astype(x.dtype)
    return moved if x.dtype.kind == "i" else np.where(count < bits, moved, 0).astype(x.dtype)


def funnel_shifted(low: Array, high: Array, count: Array, to: str) -> Array:
    """The high word of a double word shifted to the left, `l`, or the low one of it shifted right, `r`."""
    both, count = high.astype(np.uint64) << 32 | low, (count & 31).astype(np.uint64)
    return (both << count >> 32 if to == "l" else both >> count).astype(np.uint32)


def high_product(x: Array, y: Array) -> Array:
    """The upper half of the bits of a product."""
    if x.dtype.itemsize == 4:
        double = np.int64 if x.dtype.kind == "i" else np.uint64
        return (x.astype(double) * y.astype(double) >> 32).astype(x.dtype)
    return (x.astype(object) * y.astype(object) >> 64).astype(x.dtype)


def field(x: Array, first: Array, count: Array) -> Array:
    """So many bits from the first one on, with their own sign."""
    bits, first, count = (np.asarray(v).astype(x.dtype) for v in (8 * x.dtype.itemsize, first, count))
    return x << bits - first - count >> bits - count


def quotient(x: Array, y: Array) -> Array:
    """Integers are divided towards zero."""
    if x.dtype.kind == "f" or x.dtype == TYPES["bf16"]:
        return x / y
    whole = np.abs(x) // np.maximum(np.abs(y), 1)
    return (np.where((x < 0) != (y < 0), -whole, whole) if x.dtype.kind == "i" else x // y).astype(x.dtype)


def least(x: Array, y: Array) -> Array:
    return np.fmin(x, y)


def greatest(x: Array, y: Array) -> Array:
    return np.fmax(x, y)


def with_sign(sign: Array, x: Array) -> Array:
    """The first operand of PTX has the sign."""
    return np.copysign(x, sign)


def logic(x: Array, y: Array, z: Array, table: Array) -> Array:
    """Bits by a table of eight."""
    found = np.zeros_like(x)
    for row in range(8):
        if int(table.flat[0]) >> row & 1:
            parts = [v if row >> k & 1 else ~v for k, v in ((2, x), (1, y), (0, z))]
            found |= parts[0] & parts[1] & parts[2]
    return found


def permuted(x: Array, y: Array, which: Array) -> Array:
    """Bytes of both, by the numbers in a third."""
    both = x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32)
    found = np.zeros_like(x)
    for k in range(4):
        place = which >> 4 * k & 15
        byte = both >> (8 * (place & 7)).astype(np.uint64) & np.uint64(255)
        filled = np.where(byte & 128, 255, 0)
        found |= np.where(place & 8, filled, byte).astype(x.dtype) << 8 * k
    return found


def leading_zeros(x: Array) -> Array:
    bits, found = 8 * x.dtype.itemsize, np.zeros(x.shape, np.uint32)
    for k in range(bits):
        found += (x >> k == 0).astype(np.uint32)
    return (bits - (bits - found)).astype(np.uint32)


COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def compared(how: str, x: Array, y: Array) -> Array:
    """Comparisons that end with `u` hold where a number is a NaN, the others do not."""
    if x.dtype.kind not in "fV":
        return np.not_equal(x, y) if how == "ne" else COMPARISONS[how](x, y)
    unordered = np.isnan(x) | np.isnan(y)
    if how in ("nan", "num"):
        return unordered if how == "nan" else ~unordered
    if how == "ne":
        return ~unordered & np.not_equal(x, y)
    if how in ("neu", "equ", "ltu", "leu", "gtu", "geu"):
        return unordered | compared(how[:-1], x, y)
    return ~unordered & COMPARISONS[how](x, y)


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def to_tf32(bits: Array) -> Array:
    """The bits of f32 numbers as those of the nearest ones of TF32, of two the one away from zero."""
    return bits + np.uint32(0x1000) & np.uint32(0xFFFFE000)


def converted(modes: Sequence[str], x: Array) -> Array:
    """`modes` end with the new type; the old one is that of x."""
    if modes[-1] == "tf32":
        return to_tf32(x.view(np.uint32))
    type = TYPES[modes[-1]]
    is_float = x.dtype.kind in "fV"
    for mode in modes if is_float else ():
        if mode in ROUNDINGS:
            x = ROUNDINGS[mode](x)
    if not is_float or type.kind not in "iu":
        return x.astype(np.float32).astype(type) if type == TYPES["bf16"] and is_float else x.astype(type)
    limits = np.iinfo(type)
    inside = np.clip(np.where(np.isnan(x), 0, x), float(limits.min), float(limits.max))
    large, small = inside >= float(limits.max), inside <= float(limits.min)
    whole = np.where(large | small, 0, inside).astype(type)
    return np.where(large, type.type(limits.max), np.where(small, type.type(limits.min), whole)).astype(type)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "neg": np.negative,
    "abs": np.abs,
    "rem": np.fmod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": shifted_left,
    "shr": shifted_right,
    "bfe": field,
    "lop3": logic,
    "prmt": permuted,
    "fma": fused,
    "div": quotient,
    "min": least,
    "max": greatest,
    "copysign": with_sign,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "ex2": np.exp2,
    "tanh": approximate_tanh,
    "clz": leading_zeros,
}
