"""The offsets of windows that lie inside of an image."""

from hypothesis import given
from hypothesis import strategies as st

from ocannl.dialects.index.linear import Linear
from ocannl.passes.analysis.patterns.window_pieces import Piece, pieces_of, turns_inside

SMALL = st.integers(-9, 9)
COUNTS = st.integers(0, 6)


@given(SMALL, st.integers(-3, 3), COUNTS, SMALL, COUNTS)
def test_steps_that_end_inside(start: int, step: int, count: int, first: int, size: int):
    inside = range(first, first + size)
    assert [*turns_inside(start, step, count, inside)] == [
        turn for turn in range(count) if start + turn * step in inside
    ]


def test_pieces_of_long_windows():
    """They are found without a look at each offset."""
    size = 10**4
    index = Linear.of({"at": size, "k": 1})
    assert [*pieces_of(index, "at", 3, "k", 10**9, range(2 * size, 10**10))] == [
        Piece(range(1), range(2 * size, 10**9)),
        Piece(range(1, 2), range(size, 10**9)),
        Piece(range(2, 3), range(10**9)),
    ]
