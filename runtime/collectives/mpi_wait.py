"""Waiting for messages of other ranks, and finding out which rank is lost when they do not come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.runtime.collectives.engine import RankLost
from ocannl.runtime.collectives.lost_ranks import Waiting, absence_text

# Messages are polled in a loop for so long, and then with pauses: other threads may need the core.
BUSY_SECONDS, PAUSE_SECONDS = 1e-3, 5e-5
# The part of the timeout after which a rank asks the others, and the tag of such messages.
CALL, TAG = 0.8, 1

Requests: TypeAlias = Sequence[tuple[int, Any]]


@dataclass
class Elsewhere:
    """Work outside of MPI in the form of a request: `Test` says whether it is done."""

    is_done: Callable[[], bool]

    def Test(self) -> bool:
        return self.is_done()


@dataclass
class Wait:
    """A wait of one rank. Shortly before the timeout it asks the others what they wait for; those that wait
    answer.
    """

    world: Any
    timeout: float
    line: str
    sent: list[Any]
    """Requests of messages to ranks that may be lost: they outlive this wait."""
    answers: dict[int, Waiting] = field(default_factory=dict[int, Waiting])
    number: int = 0
    """The number of its question, 0 before."""

    def until(self, requests: Requests) -> None:
        """Polls until all requests are through; each is with the rank for which it waits.

        Raises `RankLost` at the end of the timeout, with the ranks that wait for nobody.
        """
        start = time.monotonic()
        while requests := [(peer, request) for peer, request in requests if not request.Test()]:
            spent = time.monotonic() - start
            if spent > BUSY_SECONDS:
                time.sleep(PAUSE_SECONDS)
                own = Waiting(tuple(dict.fromkeys(peer for peer, _ in requests)), self.line)
                self._listen(own)
                if spent > CALL * self.timeout and not self.number:
                    self._ask()
                if spent > self.timeout:
                    self._give_up(own)

    def _ask(self) -> None:
        self.number = time.monotonic_ns()
        for peer in range(self.world.size):
            if peer != self.world.rank:
                self._send(peer, None)

    def _send(self, peer: int, answer: Waiting | None, number: int = 0) -> None:
        self.sent.append(self.world.isend((self.world.rank, number or self.number, answer), peer, TAG))

    def _listen(self, own: Waiting) -> None:
        while self.world.iprobe(tag=TAG):
            peer, number, answer = self.world.recv(tag=TAG)
            if answer is None:
                self._send(peer, own, number)
            elif number == self.number:
                self.answers[peer] = answer

    def _give_up(self, own: Waiting) -> None:
        rank = self.world.rank
        raise RankLost(f"{self.line}: {absence_text(rank, {**self.answers, rank: own}, self.timeout)}")
