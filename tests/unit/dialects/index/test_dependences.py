"""Points that read what other points store, beside all pairs of points of small spaces."""

from __future__ import annotations

from itertools import product

import pytest

from ocannl.dialects.index import dependences
from ocannl.dialects.index.dependences import dependent_points
from ocannl.dialects.index.linear import Linear, Map

SPACE = {"i": 4, "j": 3}
ROW, COLUMN, STATIC = Linear.var("i"), Linear.var("j"), Linear.var("n")


def one(constant: int) -> Linear:
    return Linear((), constant)


def value(indices: Map, point: dict[str, int]) -> tuple[int, ...]:
    return tuple(sum(c * point[name] for name, c in index.terms) + index.constant for index in indices)


def has_dependent_points(stored: Map, loaded: Map) -> bool:
    points = [
        dict(zip(SPACE, values, strict=True)) | {"n": 7} for values in product(*map(range, SPACE.values()))
    ]
    own = {name for index in stored for name in index.names}
    return any(
        value(stored, writer) == value(loaded, reader)
        for writer in points
        for reader in points
        if any(writer[name] != reader[name] for name in own)
    )


@pytest.mark.parametrize(
    ("stored", "loaded"),
    [
        ((ROW,), (ROW,)),
        ((ROW,), (ROW + one(1),)),
        ((ROW + one(1),), (ROW,)),
        ((ROW,), (ROW + one(4),)),
        ((ROW,), (ROW * -1 + one(3),)),
        ((ROW * 2,), (ROW * 2 + one(1),)),
        ((ROW * 2,), (ROW,)),
        ((ROW, COLUMN), (COLUMN, ROW)),
        ((ROW, COLUMN), (ROW, COLUMN)),
        ((ROW, COLUMN), (ROW, one(0))),
        ((ROW, one(0)), (ROW, COLUMN)),
        ((ROW, one(0)), (ROW, one(1))),
        ((ROW, STATIC), (ROW, STATIC)),
        ((ROW, STATIC), (ROW + one(1), STATIC)),
        ((ROW, STATIC), (ROW + one(1), STATIC + one(1))),
        ((ROW,), (one(0),)),
        ((one(0),), (ROW,)),
        ((ROW,), (COLUMN,)),
        ((COLUMN + ROW * 3,), (COLUMN + ROW * 3,)),
        ((COLUMN + ROW * 3,), (COLUMN + ROW * 3 + one(1),)),
        ((COLUMN + ROW * 3,), (COLUMN + ROW * 3 + one(12),)),
        ((COLUMN * -1 + ROW * 3 + one(2),), (COLUMN + ROW * 3,)),
        ((COLUMN + ROW * 4,), (COLUMN + ROW * 4 + one(3),)),
        ((COLUMN + ROW * 3, ROW), (COLUMN + ROW * 3 + one(1), ROW)),
    ],
)
def test_dependent_points(stored: Map, loaded: Map):
    found = dependent_points(stored, loaded, SPACE)
    assert (found is not None) == has_dependent_points(stored, loaded)
    if found is not None:
        assert found[0] != found[1]


@pytest.mark.parametrize(
    ("stored", "loaded"),
    [
        ((one(9), ROW), (one(13), COLUMN)),
        ((ROW * 2, STATIC), (COLUMN * 2 + one(1), STATIC)),
        ((ROW,), (COLUMN + one(4),)),
        ((ROW + COLUMN * 4, STATIC), (ROW + COLUMN * 4, STATIC)),
    ],
)
def test_what_ranges_and_divisors_tell_takes_no_trials(
    stored: Map, loaded: Map, monkeypatch: pytest.MonkeyPatch
):
    """A group of Winograd's products has thousands of such pairs, each of hundreds of points to try."""
    monkeypatch.delattr(dependences, "_corners")
    assert dependent_points(stored, loaded, SPACE) is None
    assert not has_dependent_points(stored, loaded)


def test_points_of_different_static_indices_are_not_told():
    assert dependent_points((ROW, STATIC), (ROW + one(1), Linear.var("m")), SPACE) is None


def test_a_space_without_points():
    assert dependent_points((ROW,), (ROW + one(1),), {"i": 0}) is None
