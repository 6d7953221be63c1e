"""State of axes that are shorter than the mesh, and of arrays without elements, in shards."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

import ocannl as oc

MESHES: list[Mapping[str, int]] = [
    {},
    {"data": 2},
    {"data": 8},
    {"data": 2, "model": 2},
    {"data": 4, "model": 2},
]
SIZES = [(1,), (3,), (5,), (0,), (0, 2), (2, 0), (1, 3), (3, 1), (5, 3)]
VALUES = [np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes) + 10 for sizes in SIZES]


class Small:
    """Memory of all sizes, split along each axis where the mesh has as many."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        self.ctx = oc.Context.cpu(1, mesh=oc.Mesh(axes, engine="threads") if axes else None)
        self.nodes = [
            oc.node(f"n{k}", output=[*sizes], init=0.0, shard=dict(enumerate([*axes][: len(sizes)])))
            for k, sizes in enumerate(SIZES)
        ]

    def use(self, how: str) -> None:
        """Splits the memory by its first use, in eager mode or by routines; `"not"` leaves it whole."""
        if how == "eager":
            with self.ctx, oc.eager():
                for node in self.nodes:
                    (node * 2).numpy()
        elif how == "compiled":
            for node in self.nodes:
                self.ctx.compile(oc.forward(node * 2))()

    def set(self, arrays: Sequence[NDArray[np.float32]]) -> None:
        for node, array in zip(self.nodes, arrays, strict=True):
            self.ctx[node] = array


def check_files(path: Path, axes: Mapping[str, int]) -> None:
    """Each element is in one file, and only whole arrays are empty."""
    files = {*json.loads(path.with_name(f"{path.name}.index.json").read_text())["weight_map"].values()}
    assert len(files) <= math.prod(axes.values())
    assert {file.name for file in path.parent.iterdir()} == {*files, f"{path.name}.index.json"}
    arrays = {name: array for file in files for name, array in load_file(path.with_name(file)).items()}
    assert all(array.size for name, array in arrays.items() if "[" in name)
    assert sum(array.size for array in arrays.values()) == sum(map(math.prod, SIZES))


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("before", "after"), [("eager", "compiled"), ("compiled", "eager"), ("eager", "not"), ("not", "eager")]
)
@pytest.mark.parametrize(("saved", "loaded"), [*zip(MESHES, MESHES[1:] + MESHES[:1], strict=True)], ids=str)
def test_small_arrays_load_on_another_mesh(
    saved: Mapping[str, int], loaded: Mapping[str, int], before: str, after: str, tmp_path: Path
) -> None:
    path, first, second = tmp_path / "a.safetensors", Small(saved), Small(loaded)
    first.use(before)
    first.set(VALUES)
    first.ctx.save(path, first.nodes)
    if saved:
        check_files(path, saved)
    second.use(after)
    second.ctx.load(path, second.nodes)
    for node, array in zip(second.nodes, VALUES, strict=True):
        assert second.ctx[node].shape == array.shape
        np.testing.assert_array_equal(second.ctx[node], array)
