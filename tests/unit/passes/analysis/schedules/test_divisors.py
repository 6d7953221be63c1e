"""Divisors of sizes, those of sizes beyond memory among them."""

import pytest

from ocannl.passes.analysis.schedules.divisors import divisors, divisors_beside


@pytest.mark.parametrize("size", [1, 2, 36, 97, 1024, 5040])
@pytest.mark.parametrize("most", [0, 1, 5, 6, 40, 10_000])
def test_divisors(size: int, most: int):
    assert divisors(size, most) == [d for d in range(1, min(size, most) + 1) if size % d == 0]


def test_a_bound_limits_the_search():
    assert divisors(2**61 - 1, 1000) == [1]
    assert divisors(2**200, 1000) == [2**n for n in range(10)]


@pytest.mark.parametrize("size", [1, 7, 12, 768, 2**200])
@pytest.mark.parametrize("number", [5, 10, 100, 1000])
def test_divisors_beside_a_number(size: int, number: int):
    found = [d for d in range(1, 2000) if size % d == 0 and d != number]
    below, above = max(d for d in found if d < number), min((d for d in found if d > number), default=None)
    assert divisors_beside(size, number) == (below, above)
