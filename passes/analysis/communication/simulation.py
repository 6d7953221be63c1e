"""A collective on a mesh, message by message: how many there are, over which links they go, and how long that
takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.communication.rounds import Algorithm, Kind, Places, Round, rounds

Seconds: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Links:
    """The links of a machine: seconds before a message's first byte, and bytes a second of each device in
    each direction, to devices of its node and to other nodes (Hockney's model of latency and bandwidth).
    """

    devices_a_node: int
    inside_latency: float
    between_latency: float
    inside_bandwidth: float
    between_bandwidth: float


@dataclass(frozen=True)
class Traffic:
    """The messages that a collective sends among all groups of a mesh.

    Attributes:
        messages: all messages.
        bytes: the bytes of all messages.
        inside: the bytes that the busiest device sends to others of its node.
        between: the bytes that leave the busiest node, for each of its devices.
        seconds: the time until the last message has come.
    """

    messages: int
    bytes: int
    inside: int
    between: int
    seconds: float


def groups_along(mesh: Mapping[str, int], axis: str) -> Places:
    """The ranks of each group along an axis, a row for each: the last axis of a mesh varies fastest."""
    names = [*mesh]
    grid = np.arange(math.prod(mesh.values())).reshape([*mesh.values()])
    return np.moveaxis(grid, names.index(axis), -1).reshape(-1, mesh[axis])


def simulate(kind: Kind, algorithm: Algorithm, size: float, groups: Places, links: Links) -> Traffic:
    """Sends the messages of a collective of `size` bytes in all groups at once, as `rounds` has them.

    A message leaves when its sender has got that of the round before. Ranks fill nodes in order. A ring over
    several nodes is as many rings as a group has devices on a node, each with its share of the bytes, so that
    all of these devices send to other nodes, as NCCL's channels do.
    """
    nodes = groups // links.devices_a_node
    together = places_together(nodes)
    is_ring = algorithm == "ring" and kind != "all_to_all"
    simulation = _Simulation(nodes, links, together if is_ring else 1)
    for step in rounds(kind, algorithm, size, groups.shape[1], together):
        simulation.send(step)
    return simulation.traffic()


def places_together(nodes: Places) -> int:
    """How many places of each group, one behind the other, are on one node; 1 if that is not the same for
    all.
    """
    ranks = nodes.shape[1]
    changes = [at for at in range(1, ranks) if (nodes[:, at] != nodes[:, at - 1]).any()]
    first = changes[0] if changes else ranks
    return first if ranks % first == 0 and changes == [*range(first, ranks, first)] else 1


@dataclass(frozen=True)
class _Edges:
    """The links of one round: which messages leave their nodes, and latency and bandwidth of each."""

    leaves: NDArray[np.bool_]
    latency: Seconds
    bandwidth: NDArray[np.float64]


class _Simulation:
    """Groups of ranks, by their nodes, with the time at which each rank has got its last message."""

    def __init__(self, nodes: Places, links: Links, rings: int) -> None:
        self.nodes = nodes
        self.links = links
        self.leaving = min(rings * links.between_bandwidth, links.inside_bandwidth)
        self.ready: Seconds = np.zeros(nodes.shape)
        self.inside: Seconds = np.zeros(nodes.shape)
        self.between: Seconds = np.zeros(nodes.shape)
        self.messages, self.bytes = 0, 0.0
        self.edges: dict[Round, _Edges] = {}

    def send(self, step: Round) -> None:
        if step not in self.edges:
            self.edges[step] = self._edges(step)
        edges, receivers = self.edges[step], step.receivers
        arrived = np.maximum(self.ready + edges.latency, self.ready[:, receivers])
        following = np.empty_like(self.ready)
        following[:, receivers] = arrived + step.bytes / edges.bandwidth
        self.ready = following
        self.inside[~edges.leaves] += step.bytes
        self.between[edges.leaves] += step.bytes
        self.messages += self.nodes.size
        self.bytes += step.bytes * self.nodes.size

    def _edges(self, step: Round) -> _Edges:
        leaves, links = self.nodes != self.nodes[:, step.receivers], self.links
        latency = np.where(leaves, links.between_latency, links.inside_latency)
        return _Edges(leaves, latency, np.where(leaves, self.leaving, links.inside_bandwidth))

    def traffic(self) -> Traffic:
        nodes, devices = np.unique(self.nodes, return_counts=True)
        leaving = np.bincount(self.nodes.ravel(), self.between.ravel())[nodes] / devices
        seconds = float(self.ready.max())
        inside, between = round(self.inside.max()), round(leaving.max())
        return Traffic(self.messages, round(self.bytes), inside, between, seconds)
