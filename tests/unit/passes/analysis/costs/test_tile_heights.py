"""Heights of the tiles of rows."""

from __future__ import annotations

import math

import pytest

from ocannl.passes.analysis.costs.tile_heights import MOST_OF_PRODUCT, best_height


@pytest.mark.parametrize(
    ("size", "highest", "height"), [(14, 6, 5), (7, 6, 4), (20, 8, 7), (1000, 12, 12), (128, 6, 6), (5, 6, 5)]
)
def test_remainders_are_as_high_as_as_many_tiles_allow(size: int, highest: int, height: int):
    assert best_height(size, highest, MOST_OF_PRODUCT) == height


@pytest.mark.parametrize("highest", [1, 3, 6, 12, 24])
@pytest.mark.parametrize("most", [MOST_OF_PRODUCT, math.inf])
def test_no_lower_height_has_as_few_tiles(highest: int, most: float):
    for size in range(1, 300):
        height = best_height(size, highest, most)
        assert 1 <= height <= highest
        assert height == 1 or math.ceil(size / (height - 1)) > math.ceil(size / height)
