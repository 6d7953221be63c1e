"""Sweeps over places, forwards or backwards, that visit what has been added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import inf


class Sweeps:
    """Places to visit, each once for each time that it is added: in the present sweep where that has yet to
    come to it, else in the next one.
    """

    def __init__(self, places: Iterable[int], *, backwards: bool = False) -> None:
        self.sign = -1 if backwards else 1
        self.following: set[int] = {self.sign * place for place in places}
        self.present: list[int] = []
        self.waiting = set[int]()
        """Those of the present sweep."""
        self.at: float = inf
        """How far the present sweep has come."""

    def add(self, place: int) -> None:
        key = self.sign * place
        if key <= self.at:
            self.following.add(key)
        elif key not in self.waiting:
            self.waiting.add(key)
            heappush(self.present, key)

    def sweep(self) -> Iterator[int]:
        """The places of the next sweep in order, those that are added meanwhile included."""
        self.waiting, self.following = self.following, set[int]()
        self.present = [*self.waiting]
        heapify(self.present)
        self.at = -inf
        while self.present:
            key = heappop(self.present)
            self.waiting.discard(key)
            self.at = key
            yield self.sign * key
        self.at = inf
