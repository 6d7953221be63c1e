"""Fixtures of tests of kernels."""

from __future__ import annotations

import pytest

from ocannl.lowering.loops_to_kernels import tensor_cores
from ocannl.lowering.loops_to_kernels.tensor_cores import TILES, WarpTiles


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch):
    """Lets all products have a tile."""

    def choose(tiles: WarpTiles) -> None:
        monkeypatch.setattr(tensor_cores, "TILES", TILES[:1])
        monkeypatch.setattr(tensor_cores, "WARPGROUP_TILES", (tiles,))

    return choose
