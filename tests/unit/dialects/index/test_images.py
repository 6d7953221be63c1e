"""Bijections that are recognized in index maps, against the cells that the maps reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from ocannl.dialects.index.images import Box, box_of, covers, fill, tiles, without
from ocannl.dialects.index.linear import Linear, Map

Part = tuple[Map, dict[str, int]]
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def cells(indices: Map, space: Mapping[str, int]) -> Counter[tuple[int, ...]]:
    """How many points reach each cell."""
    names = list(space)
    found: Counter[tuple[int, ...]] = Counter()
    for point in product(*map(range, space.values())):
        at = {name: Linear((), value) for name, value in zip(names, point, strict=True)}
        found[tuple(index.substitute(at).constant for index in indices)] += 1
    return found


def array(sizes: Sequence[int]) -> Counter[tuple[int, ...]]:
    return Counter(product(*map(range, sizes)))


@st.composite
def mixed_radix(draw: st.DrawFn, axis: int, start: int, extent: int) -> tuple[Linear, dict[str, int]]:
    """An index that reaches an interval once, by variables for the factors of its length, some of which count
    down.
    """
    digits: list[int] = []
    while extent > 1:
        digits.append(draw(st.sampled_from([d for d in range(2, extent + 1) if extent % d == 0])))
        extent //= digits[-1]
    names = draw(st.permutations([f"v{axis}_{k}" for k in range(len(digits))]))
    terms = {name: prod(digits[:k]) for k, name in enumerate(names)}
    for name, size in zip(names, digits, strict=True):
        if draw(st.booleans()):
            start += terms[name] * (size - 1)
            terms[name] *= -1
    return Linear.of(terms, start), dict(zip(names, digits, strict=True))


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Part], list[int]]:
    """Maps onto boxes into which an array is cut."""
    sizes = draw(SIZES)
    boxes = [[(0, size) for size in sizes]]
    for _ in range(draw(st.integers(0, 3))):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(box) - 1))
        start, size = box[axis]
        at = draw(st.integers(0, size))
        halves = [(start, at), (start + at, size - at)]
        boxes += [[*box[:axis], half, *box[axis + 1 :]] for half in halves if half[1]]
    parts: list[Part] = []
    for box in boxes:
        drawn = [draw(mixed_radix(axis, *interval)) for axis, interval in enumerate(box)]
        space = [item for _, own in drawn for item in own.items()]
        parts.append((tuple(index for index, _ in drawn), dict(draw(st.permutations(space)))))
    return parts, sizes


@given(partitions())
def test_a_partition_into_boxes_is_recognized(found: tuple[list[Part], list[int]]):
    parts, sizes = found
    assert sum((cells(*part) for part in parts), Counter()) == array(sizes)
    assert tiles(parts, sizes)
    for indices, space in parts:
        box = box_of(indices, space)
        assert box is not None
        assert set(product(*(range(s, s + n) for s, n in box))) == set(cells(indices, space))


@given(partitions())
def test_nothing_may_lack_or_come_twice(found: tuple[list[Part], list[int]]):
    parts, sizes = found
    assert not tiles(parts[1:], sizes)
    assert not tiles([*parts, parts[0]], sizes)
    assert not tiles([*parts[1:], parts[-1]], sizes) or len(parts) == 1


@given(
    st.lists(
        st.builds(Linear.of, st.dictionaries(st.sampled_from("abc"), st.integers(-2, 6)), st.integers(0, 2)),
        min_size=1,
        max_size=2,
    ),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 4)),
    SIZES,
)
def test_what_is_taken_for_a_bijection_is_one(indices: list[Linear], space: dict[str, int], sizes: list[int]):
    names = {name for index in indices for name in index.names}
    box = box_of(tuple(indices), space)
    if names <= space.keys():
        reached = cells(tuple(indices), space)
        assert box is None or reached == Counter(product(*(range(s, s + n) for s, n in box)))
    else:
        assert box is None
    sizes = [*sizes, 1, 1][: len(indices)]
    if box is not None and all(0 <= s <= size - n for (s, n), size in zip(box, sizes, strict=True)):
        assert covers(indices, space, sizes) == (cells(tuple(indices), space) == array(sizes))


def test_boxes_beside_each_other_do_not_overlap():
    left, right, lower = ((0, 2), (0, 3)), ((0, 2), (3, 1)), ((2, 1), (0, 4))
    assert fill([left, right, lower], (3, 4))
    assert not fill([left, right], (3, 4))
    assert not fill([((0, 2), (0, 4)), ((1, 1), (0, 4))], (3, 4))


BOXES = st.lists(st.tuples(st.integers(-1, 4), st.integers(1, 4)), min_size=2, max_size=2).map(tuple)


@given(BOXES, BOXES)
def test_a_box_without_another_one(box: Box, hole: Box):
    own, others = (
        set(product(*(range(start, start + size) for start, size in each))) for each in (box, hole)
    )
    found = Counter(
        cell
        for part in without(box, hole)
        for cell in product(*(range(start, start + size) for start, size in part))
    )
    assert found == Counter(own - others)
