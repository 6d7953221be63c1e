"""The engine `threads`: ranks are threads of this process, which copy from each other between barriers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from threading import Condition, Lock
from typing import Any, TypeVar

from numpy.typing import NDArray

from ocannl.dialects.records import dataclass
from ocannl.runtime.collectives.engine import Bytes, RankLost, Repeated
from ocannl.runtime.collectives.lost_ranks import Waiting, absence_text

R = TypeVar("R")
PAUSE_SECONDS = 5e-5
"""Between looks at what happens elsewhere."""


class ThreadsEngine:
    """All ranks of a mesh in one process."""

    def __init__(self, ranks: int, timeout: float) -> None:
        self.ranks: Sequence[int] = range(ranks)
        self.timeout = timeout
        self._flights: dict[tuple[tuple[int, ...], int], Flight] = {}
        """Exchanges on their way, by group and number."""
        self._started = Counter[tuple[int, tuple[int, ...]]]()
        """How many exchanges a rank has started in a group."""
        self._waiting: dict[int, Waiting] = {}
        self._absence = ""
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._messages = defaultdict[tuple[int, int, int], deque[Bytes]](deque)
        """Messages on their way, by source, target and number."""
        self._has_failed = False
        self._pool = ThreadPoolExecutor(ranks, "rank")

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        exchange = self.repeated(rank, group, kind, target, source, line)
        exchange.start()
        exchange.finish()

    def repeated(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> Repeated:
        return Copies(self, rank, tuple(group), kind, target, source, line)

    def start(self, rank: int, group: tuple[int, ...], source: Bytes) -> Flight:
        """Lets others see a rank's source in the next exchange of a group."""
        with self._changed:
            number = self._started[rank, group]
            self._started[rank, group] += 1
            flight = self._flights.setdefault((group, number), Flight())
            flight.sources[rank] = source
            if len(flight.sources) == len(group):
                del self._flights[group, number]
                self._changed.notify_all()
        return flight

    def until_all(self, rank: int, group: Sequence[int], come: Container[int], line: str) -> None:
        """Waits until all ranks of a group have come. Raises `RankLost`."""
        deadline = time.monotonic() + self.timeout
        with self._changed:
            while missing := tuple([peer for peer in group if peer not in come]):
                self._waiting[rank] = Waiting(missing, line)
                self._pause(rank, deadline, line)
            self._waiting.pop(rank, None)

    def taken(self, flight: Flight, rank: int, group: Sequence[int]) -> None:
        """Notes that a rank has taken what it needs of the others."""
        with self._changed:
            flight.taken.add(rank)
            if len(flight.taken) == len(group):
                self._changed.notify_all()

    def _pause(self, rank: int, deadline: float, line: str) -> None:
        """Waits for what other ranks do. Raises `RankLost` where one has failed, or the time is over."""
        left = deadline - time.monotonic()
        if self._has_failed or left <= 0:
            self._absence = self._absence or absence_text(rank, self._waiting, self.timeout)
            raise RankLost(f"{line}: {self._absence}")
        self._changed.wait(left)

    def send(self, rank: int, peer: int, number: int, source: Bytes, line: str) -> None:
        with self._changed:
            self._messages[rank, peer, number].append(source.copy())
            self._changed.notify_all()

    def receive(self, rank: int, peer: int, number: int, target: Bytes, line: str) -> None:
        deadline = time.monotonic() + self.timeout
        with self._changed:
            found = self._messages[peer, rank, number]
            self._waiting[rank] = Waiting((peer,), line)
            while not found:
                self._pause(rank, deadline, line)
            del self._waiting[rank]
            message = found.popleft()
        target[:] = message

    def flush(self) -> None:
        """Nothing: messages are in the memory of this process."""

    def wait(self, rank: int, group: Sequence[int], is_done: Callable[[], bool], line: str) -> None:
        deadline = time.monotonic() + self.timeout
        with self._lock:
            self._waiting[rank] = Waiting(tuple(group), line)
        while not is_done():
            if self._has_failed or time.monotonic() > deadline:
                with self._lock:
                    self._absence = self._absence or absence_text(rank, self._waiting, self.timeout)
                raise RankLost(f"{line}: {self._absence}")
            time.sleep(PAUSE_SECONDS)
        with self._lock:
            self._waiting.pop(rank, None)

    def together(self, functions: Sequence[Callable[[], R]]) -> list[R]:
        futures = [self._pool.submit(function) for function in functions]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            self._flights.clear()
            self._started.clear()
            self._waiting.clear()
            self._messages.clear()
            self._has_failed, self._absence = False, ""
            raise min(errors, key=lambda error: isinstance(error, RankLost))
        return [future.result() for future in futures]

    def all_parts(self, parts: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        return parts

    def check_same(self, what: str, content: bytes) -> None:
        """There is one process."""

    def fail(self) -> None:
        with self._lock:
            self._has_failed = True
            self._changed.notify_all()


@dataclass(eq=False)
class Flight:
    """An exchange on its way: what ranks give, and which have taken all that they need."""

    sources: dict[int, Bytes] = field(default_factory=dict[int, Bytes])
    taken: set[int] = field(default_factory=set[int])


@dataclass
class Copies:
    """An exchange of one rank: it copies from the sources of the others, when they are there."""

    engine: ThreadsEngine
    rank: int
    group: tuple[int, ...]
    kind: str
    target: Bytes
    source: Bytes
    line: str
    flight: Flight = field(default_factory=Flight)

    def start(self) -> None:
        self.flight = self.engine.start(self.rank, self.group, self.source)

    def finish(self) -> None:
        flight, engine = self.flight, self.engine
        engine.until_all(self.rank, self.group, flight.sources, self.line)
        rows, own = self.target.reshape(len(self.group), -1), self.group.index(self.rank)
        for row, peer in zip(rows, self.group, strict=True):
            theirs = flight.sources[peer]
            row[:] = theirs if self.kind == "all_gather" else theirs.reshape(rows.shape)[own]
        engine.taken(flight, self.rank, self.group)
        engine.until_all(self.rank, self.group, flight.taken, self.line)
