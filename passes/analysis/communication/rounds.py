"""The messages of algorithms for collectives, round by round.

Rings and pairwise exchanges are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective
Communication Operations in MPICH" (2005). Trees are recursive doubling as by Bruck et al., "Efficient
Algorithms for All-to-All Communications" (1997), which takes any number of ranks, and halving is that
backwards. Where ranks share nodes, trees are across nodes and within them, so that few bytes leave a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.records import dataclass

Kind: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
Algorithm: TypeAlias = Literal["ring", "tree"]
Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Round:
    """Each place of a group sends one message: to which place, and of how many bytes."""

    receivers: Places
    bytes: float


def rounds(kind: Kind, algorithm: Algorithm, size: float, ranks: int, together: int) -> Iterator[Round]:
    """The rounds of a collective among `ranks` places, of which so many that follow each other are together
    on a node. `size` is the bytes of the whole: of a sum, of what is gathered, of what is scattered.
    """
    if kind == "all_to_all":
        yield from _pairwise(size / ranks**2, ranks)
    elif algorithm == "ring":
        halves = 2 if kind == "all_reduce" else 1
        step = Round(_ahead(ranks, 1), size / ranks)
        yield from repeat(step, halves * (ranks - 1))
    else:
        doubling = [*_doubling(size / ranks, ranks, together)]
        if kind != "all_gather":
            yield from reversed(doubling)
        if kind != "reduce_scatter":
            yield from doubling


def _ahead(ranks: int, distance: int) -> Places:
    return (np.arange(ranks) + distance) % ranks


def _pairwise(block: float, ranks: int) -> Iterator[Round]:
    for distance in range(1, ranks):
        yield Round(_ahead(ranks, distance), block)


def _doubling(block: float, ranks: int, together: int) -> Iterator[Round]:
    """An all-gather of blocks: first across nodes, among places that correspond, then within nodes."""
    within = together if ranks % together == 0 else 1
    nodes = ranks // within
    node, own = np.divmod(np.arange(ranks), within)
    for distance, count in _doubled(nodes):
        yield Round((node + distance) % nodes * within + own, count * block)
    for distance, count in _doubled(within):
        yield Round(node * within + (own + distance) % within, count * nodes * block)


def _doubled(places: int) -> Iterator[tuple[int, int]]:
    """How far each place sends, and how many blocks: all that it has, or as many as are missing."""
    known = 1
    while known < places:
        yield known, min(known, places - known)
        known *= 2
