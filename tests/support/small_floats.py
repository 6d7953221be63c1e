"""All numbers of the small floats and those between them, rounded by `ml_dtypes` and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ocannl.dialects.scalar.small_floats import FORMATS, Format

ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=lambda format: format.name)


def stored(format: Format) -> np.dtype[np.generic]:
    return np.dtype(format.dtype)


def all_numbers(format: Format) -> NDArray[np.generic]:
    return np.arange(2**format.bits).astype(f"uint{format.bits}").view(stored(format))


def check_equal(found: NDArray[np.generic], expected: NDArray[np.generic]) -> None:
    """NaN at the same places, of any sign; zeros of the same sign."""
    left, right = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(left, right)
    numbers = ~np.isnan(left)
    np.testing.assert_array_equal(np.signbit(left[numbers]), np.signbit(right[numbers]))


def between(format: Format) -> NDArray[np.float32]:
    """All numbers of a format, what lies half-way between two, and the next f32 on both sides of these."""
    wide = all_numbers(format).astype(np.float32)
    finite = np.sort(wide[np.isfinite(wide)].astype(np.float64))
    largest = finite[-1] + (finite[-1] - finite[-2]) / 2
    halves = np.array([*finite, *((finite[1:] + finite[:-1]) / 2), largest, -largest]).astype(np.float32)
    above, below = (np.nextafter(halves, np.float32(end)) for end in (np.inf, -np.inf))
    ends = np.array([np.inf, -np.inf, np.nan, -np.nan, 3.4e38, -3.4e38, 1e-45, -1e-45, -0.0], np.float32)
    return np.concatenate([halves, above, below, ends])


def rounded(numbers: NDArray[np.float32], format: Format) -> NDArray[np.generic]:
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(stored(format))
