"""The heights of the tiles of a loop's rows."""

from __future__ import annotations

import math

# The cost of a remainder, whose smaller tile costs code and hides less latency, as a part of the work; and in
# products, where each row of a tile saves loads, in tiles at most.
REMAINDER_PENALTY, MOST_OF_PRODUCT = 0.05, 16


def best_height(size: int, highest: int, most: float) -> int:
    """The height of row tiles that are few, without a remainder if that does not take many more of them: a
    part of all, or `most`. Of as many tiles those whose remainder is the highest.
    """
    penalty = min(REMAINDER_PENALTY * size, most)

    def cost(height: int) -> float:
        whole, remainder = divmod(size, height)
        return whole + 1 + penalty if remainder else whole

    tiles = math.ceil(size / min(range(min(size, highest), 0, -1), key=cost))
    return math.ceil(size / tiles)
