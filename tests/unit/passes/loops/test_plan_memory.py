"""The arena: blocks that are in use at once share no bytes, and free bytes are found again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocannl.passes.loops.plan_memory import Arena, aligned


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[bool, int]]:
    """Takes a size, or gives back one of what is in use."""
    return draw(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=40))


@given(steps())
def test_the_gaps_are_what_no_block_has(taken: list[tuple[bool, int]]):
    arena, blocks = Arena(), list[tuple[int, int]]()
    for takes, number in taken:
        before = list(arena.gaps), arena.end
        if takes:
            start = arena.take(number)
            blocks.append((start, start + number))
            fitting = [gap for gap in before[0] if gap[1] - gap[0] >= number]
            if fitting:
                best = min(fitting, key=lambda gap: (gap[1] - gap[0], gap))
                assert (start, arena.end) == (best[0], before[1])
            else:
                last = [gap[0] for gap in before[0] if gap[1] == before[1]]
                assert (start, arena.end) == (min([*last, before[1]]), start + number)
        elif blocks:
            start, end = blocks.pop(number % len(blocks))
            arena.give(start, end - start)
        blocks.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(blocks))
        edges = [(0, 0), *blocks, (arena.end, arena.end)]
        assert arena.gaps == [(a[1], b[0]) for a, b in pairwise(edges) if a[1] < b[0]]


def test_a_gap_is_joined_with_those_before_and_after():
    arena = Arena()
    for _ in range(4):
        arena.take(64)
    for start in (0, 128, 64):
        arena.give(start, 64)
    assert arena.gaps == [(0, 192)]
    assert arena.take(192) == 0
    assert arena.end == 256


def test_the_smallest_gap_that_is_large_enough_is_taken():
    arena = Arena()
    for size in (192, 64, 128, 64, 128, 64):
        arena.take(size)
    for start, size in ((0, 192), (256, 128), (448, 128)):
        arena.give(start, size)
    assert [arena.take(size) for size in (128, 64, 256, 128)] == [256, 448, 640, 0]
    assert arena.gaps == [(128, 192), (512, 576)]


@pytest.mark.parametrize(("size", "block"), [(0, 64), (1, 64), (64, 64), (65, 128), (128, 128)])
def test_blocks_are_whole_lines(size: int, block: int):
    assert aligned(size) == block
