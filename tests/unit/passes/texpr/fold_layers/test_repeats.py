"""Code that repeats, against all places that are equal to those a period later."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ocannl.passes.texpr.fold_layers.repeats import LEAST_REPEATS, Repeat, apart, repeats

CODES = st.lists(st.integers(0, 3), max_size=40)


def is_repeated(codes: list[int], repeat: Repeat) -> bool:
    return all(
        codes[at] == codes[at + repeat.period] for at in range(repeat.start, repeat.stop - repeat.period)
    )


@given(CODES)
def test_repeats_are_whole_and_long(codes: list[int]):
    found = repeats(np.array(codes, np.int64))
    assert len(set(found)) == len(found)
    for repeat in found:
        start, stop, period = repeat.start, repeat.stop, repeat.period
        assert 0 <= start < stop <= len(codes)
        assert stop - start >= LEAST_REPEATS * period
        assert is_repeated(codes, repeat)
        if start:
            assert not is_repeated(codes, Repeat(start - 1, stop, period))
        if stop < len(codes):
            assert not is_repeated(codes, Repeat(start, stop + 1, period))
    sizes = [repeat.start - repeat.stop for repeat in found]
    assert sizes == sorted(sizes)


@given(CODES, st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(LEAST_REPEATS, 7), CODES)
def test_what_is_repeated_is_found(before: list[int], unit: list[int], times: int, after: list[int]):
    """Among other code, which has other statements."""
    codes = [*(code + 10 for code in before), *times * unit, *(code + 10 for code in after)]
    found = repeats(np.array(codes, np.int64))
    start, stop = len(before), len(before) + times * len(unit)
    assert any(r.start <= start and r.stop >= stop and len(unit) % r.period == 0 for r in found)
    if times > LEAST_REPEATS and len({*unit}) == len(unit):
        short = [*before, *(LEAST_REPEATS - 1) * unit]
        assert not any(r.period == len(unit) and r.start >= start for r in repeats(np.array(short, np.int64)))


@given(
    st.lists(st.builds(lambda a, b: Repeat(a, a + b, 1), st.integers(0, 30), st.integers(1, 10)), max_size=8)
)
def test_of_those_that_overlap_the_first_stays(some: list[Repeat]):
    kept = apart(some)
    assert all(a.stop <= b.start or b.stop <= a.start for a, b in combinations(kept, 2))
    for repeat in some:
        earlier = kept[: kept.index(repeat)] if repeat in kept else kept
        assert (repeat in kept) == all(repeat.stop <= r.start or r.stop <= repeat.start for r in earlier)
