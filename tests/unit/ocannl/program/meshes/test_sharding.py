"""Meshes and placements in programs, and errors about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc


def test_a_mesh_knows_the_places_of_its_ranks():
    mesh = oc.Mesh({"data": 3, "model": 2})
    assert mesh.ranks == 6
    assert [mesh.place(rank) for rank in (0, 1, 2, 5)] == [
        {"data": 0, "model": 0},
        {"data": 0, "model": 1},
        {"data": 1, "model": 0},
        {"data": 2, "model": 1},
    ]


@pytest.mark.parametrize("axes", [{}, {"a b": 2}, {"data": 0}, {"data": 1.5}, 4])
def test_axes_of_a_mesh_have_names_and_sizes(axes: Any):
    with pytest.raises(oc.ArgumentError):
        oc.Mesh(axes)


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ({"row": "data"}, "an axis is a row"),
        ({True: "data"}, "an axis is a row"),
        ({"batch": 4}, "an axis of a mesh has a name"),
        ({"batch": "data", "output": "data"}, "cannot share the mesh axis"),
        ({"batch": "stage"}, "no axis of a tensor is split over stages: what is built in"),
        ("batch", "axes are given to those of a mesh"),
    ],
)
def test_placements_name_axes(shard: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        oc.param("w", output=3, shard=shard)


def test_a_placement_stays_and_another_one_is_of_a_copy():
    mesh = oc.Mesh({"data": 2})
    x = oc.data(np.ones((4, 6), np.float32), label="x")
    assert oc.shard(x, {"batch": "data"}) == x
    moved = oc.shard(x, {"output": "data"})
    assert moved != x
    assert str(x.placement) == 'split along axis 0 over "data"'
    assert str(moved.placement) == 'split along axis 1 over "data"'
    assert "at 0 of 4 to 1 over" in moved.ir("partition")
    del mesh


def test_an_axis_that_there_is_not_is_an_error_at_its_line():
    mesh = oc.Mesh({"data": 2})
    x = oc.data(np.ones((4, 6), np.float32), label="x", shard={("batch", 1): "data"})
    with pytest.raises(oc.OcannlError, match=r"test_sharding.py:\d+: `x` has no axis 1 in its batch row"):
        oc.relu(x).ir("partition")
    del mesh


def test_placements_change_nothing_on_one_device():
    x = np.arange(6.0).reshape(2, 3)
    split = oc.relu(oc.data(x, shard={"batch": "data"}))
    np.testing.assert_array_equal(oc.Context.cpu()[split], x)
