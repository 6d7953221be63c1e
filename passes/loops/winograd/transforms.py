"""The transformations of Winograd's minimal filtering F(2 x 2, 3 x 3).

Two neighbouring sums of three products along an axis, of four numbers d of an image with a kernel g, are
`OUTPUT (KERNEL g * IMAGE d)`, which multiplies four times in place of six (Winograd, "Arithmetic Complexity
of Computations", 1980). Along two axes each is applied to rows and columns. The form is trilinear: with the
transposed matrices, it gives the gradient of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from ocannl.dialects.scalar.arith_builder import ArithBuilder

Matrix: TypeAlias = tuple[tuple[float, ...], ...]
Square: TypeAlias = list[list[SSAValue]]

# The offsets in a window, the positions of a tile, and the numbers along an axis of what is transformed.
OFFSETS, POSITIONS, TERMS = 3, 2, 4
IMAGE: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
KERNEL: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
OUTPUT: Matrix = ((1, 1, 1, 0), (0, 1, -1, 1))


def transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def transformed(b: ArithBuilder, matrix: Matrix, values: Square) -> Square:
    """A matrix applied to the columns of a square of values, and to its rows."""
    columns = [[combined(b, row, column) for row in matrix] for column in zip(*values, strict=True)]
    return [[combined(b, column, row) for column in matrix] for row in zip(*columns, strict=True)]


def combined(b: ArithBuilder, factors: Sequence[float], values: Sequence[SSAValue]) -> SSAValue:
    """The sum of values times constants, with one multiplication for all that have the same."""
    parts = list[SSAValue]()
    for size in sorted({abs(factor) for factor in factors if factor}, reverse=True):
        added = [value for factor, value in zip(factors, values, strict=True) if factor == size]
        total = added[0]
        for value in added[1:]:
            total = b.add(total, value)
        for factor, value in zip(factors, values, strict=True):
            total = b.sub(total, value) if factor == -size else total
        parts.append(total if size == 1 else b.mul(total, b.const(size)))
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total
