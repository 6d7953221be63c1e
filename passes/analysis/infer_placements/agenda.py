"""Agendas: the numbers that are to be looked at again, as something that they depend on has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush


class Agenda:
    """Numbers that are gone through in order, each once until it is added again: first those that are added
    ahead of where one is, and the others the next time.
    """

    def __init__(self, numbers: Iterable[int], *, last_first: bool = False) -> None:
        self.sign = -1 if last_first else 1
        self.waiting = {self.sign * number for number in numbers}
        self.ahead: list[int] = []
        self.at: int | None = None
        """The number that is looked at, while they are gone through."""

    def add(self, number: int) -> None:
        place = self.sign * number
        if place not in self.waiting:
            self.waiting.add(place)
            if self.at is not None and place > self.at:
                heappush(self.ahead, place)

    def __iter__(self) -> Iterator[int]:
        self.ahead = [*self.waiting]
        heapify(self.ahead)
        while self.ahead:
            self.at = heappop(self.ahead)
            self.waiting.discard(self.at)
            yield self.sign * self.at
        self.at = None
