"""`ldmatrix` and `mma.sync`: matrices over the registers of warps, as NVIDIA documents it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

WARP = 32
# The rows and columns that the threads of a warp have of the operands, register by register.
G, T = np.arange(WARP) // 4, np.arange(WARP) % 4
ELEMENTS: dict[str, Any] = {"tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def spread(rows: Array, count: int, is_transposed: bool) -> list[Array]:
    """The registers of some warps with `count` matrices each. Threads 8 k to 8 k + 7 of a warp gave the rows,
    of 16 bytes, of matrix k.
    """
    found: list[Array] = []
    for k in range(count):
        matrices = np.ascontiguousarray(rows.reshape(-1, WARP, 16)[:, 8 * k : 8 * k + 8]).view("<u2")
        if is_transposed:
            matrices = np.ascontiguousarray(matrices.transpose(0, 2, 1))
        found.append(matrices.view("<u4")[:, G, T].reshape(-1))
    return found


@cache
def places(pack: int) -> tuple[Array, Array, Array]:
    """For each element of both operands and of the sums its number among those of a warp: by thread, then
    by register. `pack` elements of the operands are in a register.
    """
    left, right, sums = (np.zeros(shape, int) for shape in ((16, 8 * pack), (8 * pack, 8), (16, 8)))
    lane = np.arange(WARP)
    for k in range(4 * pack):
        row, column = G + 8 * (k // pack % 2), pack * T + k % pack + 4 * pack * (k // (2 * pack))
        left[row, column] = 4 * pack * lane + k
    for k in range(2 * pack):
        right[pack * T + k % pack + 4 * pack * (k // pack), G] = 2 * pack * lane + k
    for k in range(4):
        sums[G + 8 * (k // 2), 2 * T + k % 2] = 4 * lane + k
    return left, right, sums


def elements(registers: Sequence[Array], type: Any, where: Array) -> Array:
    """The matrix of each warp."""
    words = np.stack(registers, 1).view(type).astype(np.float32)
    return words.reshape(len(registers[0]) // WARP, -1)[:, where]


def multiplied_doubles(left: Array, right: Array, sums: Sequence[Array]) -> list[Array]:
    """The registers of 8 x 8 sums of products of 8 x 4 and 4 x 8 numbers in f64: a thread has one of each
    operand, and two neighbours of the sums.
    """
    x, w = np.zeros((2, len(left) // WARP, 8, 4))
    x[:, G, T], w[:, G, T] = left.reshape(-1, WARP), right.reshape(-1, WARP)
    total = np.zeros((len(x), 8, 8))
    for k, part in enumerate(sums):
        total[:, G, 2 * T + k] = part.reshape(-1, WARP)
    total += x @ w.transpose(0, 2, 1)
    return [total[:, G, 2 * T + k].reshape(-1) for k in range(2)]


def multiplied(
    left: Sequence[Array], right: Sequence[Array], sums: Sequence[Array], type: str
) -> list[Array]:
    """The registers of 16 x 8 sums of products in f32, of operands of a type."""
    first, second, third = places(1 if type == "tf32" else 2)
    x, w = elements(left, ELEMENTS[type], first), elements(right, ELEMENTS[type], second)
    total = x @ w + elements(sums, np.float32, third)
    found = np.empty((len(total), 4 * WARP), np.float32)
    found[:, third.reshape(-1)] = total.reshape(len(total), -1)
    return list(found.reshape(-1, 4).view(np.uint32).T)
