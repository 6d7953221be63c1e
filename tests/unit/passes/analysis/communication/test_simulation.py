"""Messages of collectives: what rounds send, over which links, and how long that takes."""

import numpy as np
import pytest

from ocannl.passes.analysis.communication.rounds import Algorithm, Kind, rounds
from ocannl.passes.analysis.communication.simulation import Links, groups_along, places_together, simulate

LINKS = Links(
    devices_a_node=4,
    inside_latency=2e-6,
    between_latency=5e-6,
    inside_bandwidth=400e9,
    between_bandwidth=50e9,
)
SIZE = 7 * 3 * 2**20
"""Bytes that 2, 3, 4, 6, 7, 8 and 12 ranks have even parts of."""


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 7, 8, 12, 64])
def test_algorithms_send_as_few_bytes_as_can_be(ranks: int, algorithm: Algorithm) -> None:
    groups = groups_along({"data": ranks, "model": 2}, "data")

    def sent(kind: Kind) -> int:
        return simulate(kind, algorithm, SIZE, groups, LINKS).bytes

    half = len(groups) * (ranks - 1) * SIZE
    assert sent("all_gather") == half
    assert sent("reduce_scatter") == half
    assert sent("all_reduce") == 2 * half
    assert sent("all_to_all") == pytest.approx(half / ranks, abs=1)


@pytest.mark.parametrize(
    ("ranks", "together"), [(2, 2), (5, 5), (8, 8), (8, 4), (12, 4), (6, 3), (7, 1), (12, 1)]
)
def test_doubling_brings_each_rank_all_blocks_once(ranks: int, together: int) -> None:
    known = [[place] for place in range(ranks)]
    for step in rounds("all_gather", "tree", float(ranks), ranks, together):
        sent = [own[: int(step.bytes)] for own in known]
        for place, receiver in enumerate(step.receivers):
            known[receiver] = known[receiver] + sent[place]
    assert [sorted(own) for own in known] == [[*range(ranks)]] * ranks


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_ring_within_a_node(ranks: int) -> None:
    found = simulate("all_reduce", "ring", SIZE, groups_along({"data": ranks}, "data"), LINKS)
    steps = 2 * (ranks - 1)
    assert found.seconds == pytest.approx(steps * (2e-6 + SIZE / ranks / 400e9))
    assert found.messages == steps * ranks
    assert (found.inside, found.between) == (round(steps * SIZE / ranks), 0)


def test_a_tree_has_fewer_rounds_than_a_ring() -> None:
    groups = groups_along({"data": 4}, "data")
    found = simulate("all_reduce", "tree", SIZE, groups, LINKS)
    assert found.seconds == pytest.approx(4 * 2e-6 + 2 * 3 / 4 * SIZE / 400e9)
    assert found.messages == 4 * 4


def test_a_ring_over_nodes_sends_from_all_devices_of_a_node() -> None:
    groups = groups_along({"data": 12}, "data")
    nothing, found = (simulate("all_gather", "ring", size, groups, LINKS) for size in (0, SIZE))
    assert nothing.seconds == pytest.approx(8 * 2e-6 + 3 * 5e-6)
    assert found.between == round(11 * SIZE / 12 / 4)
    # The link between nodes is busy from its first message on.
    assert found.seconds == pytest.approx(5e-6 + 11 * SIZE / 12 / (4 * 50e9))


def test_a_tree_over_nodes_leaves_them_with_few_bytes() -> None:
    found = simulate("all_reduce", "tree", SIZE, groups_along({"data": 16}, "data"), LINKS)
    assert found.between == round(2 * SIZE / 4 * 3 / 4)
    assert found.inside == round(2 * SIZE * 3 / 4)


def test_the_last_axis_of_a_mesh_has_the_nearest_ranks() -> None:
    mesh = {"data": 4, "model": 4}
    model, data = (
        simulate("all_reduce", "ring", SIZE, groups_along(mesh, axis), LINKS) for axis in ("model", "data")
    )
    assert (model.between, data.inside) == (0, 0)
    assert data.seconds > model.seconds


def test_groups_are_the_ranks_along_an_axis() -> None:
    mesh = {"data": 2, "model": 3}
    assert groups_along(mesh, "data").tolist() == [[0, 3], [1, 4], [2, 5]]
    assert groups_along(mesh, "model").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("ranks", "devices", "together"), [(8, 8, 8), (16, 8, 8), (12, 8, 1), (12, 4, 4), (3, 8, 3)]
)
def test_places_that_share_a_node(ranks: int, devices: int, together: int) -> None:
    assert places_together(np.arange(ranks)[None] // devices) == together


def test_thousands_of_ranks() -> None:
    found = simulate("all_reduce", "ring", SIZE, groups_along({"data": 4096}, "data"), LINKS)
    assert (found.messages, found.bytes) == (2 * 4095 * 4096, 2 * 4095 * SIZE)
