"""The engine `threads`: ranks are threads of this process, which copy from each other between barriers."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, BrokenBarrierError, Condition, Lock
from typing import Any, TypeVar

from numpy.typing import NDArray

from ocannl.runtime.collectives.engine import Bytes, RankLost
from ocannl.runtime.collectives.lost_ranks import Waiting, absence_text

R = TypeVar("R")
PAUSE_SECONDS = 5e-5
"""Between looks at what happens elsewhere."""


class ThreadsEngine:
    """All ranks of a mesh in one process."""

    def __init__(self, ranks: int, timeout: float) -> None:
        self.ranks: Sequence[int] = range(ranks)
        self.timeout = timeout
        self._sources: dict[int, Bytes] = {}
        self._barriers: dict[tuple[int, ...], Barrier] = {}
        self._waiting: dict[int, Waiting] = {}
        self._absence = ""
        self._lock = Lock()
        self._sent = Condition(self._lock)
        self._messages = defaultdict[tuple[int, int, int], deque[Bytes]](deque)
        """Messages on their way, by source, target and number."""
        self._has_failed = False
        self._pool = ThreadPoolExecutor(ranks, "rank")

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        self._sources[rank] = source
        self._meet(rank, group, line)
        rows, own = target.reshape(len(group), -1), group.index(rank)
        for row, peer in zip(rows, group, strict=True):
            theirs = self._sources[peer]
            row[:] = theirs if kind == "all_gather" else theirs.reshape(rows.shape)[own]
        self._meet(rank, group, line)

    def repeated(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> Callable[[], None]:
        return partial(self.exchange, rank, group, kind, target, source, line)

    def _meet(self, rank: int, group: Sequence[int], line: str) -> None:
        key = tuple(group)
        with self._lock:
            if key not in self._barriers:
                self._barriers[key] = Barrier(len(key), partial(self._met, key))
            barrier = self._barriers[key]
            if self._has_failed:
                barrier.abort()
            self._waiting[rank] = Waiting(key, line)
        try:
            barrier.wait(self.timeout)
        except BrokenBarrierError:
            with self._lock:
                self._absence = self._absence or absence_text(rank, self._waiting, self.timeout)
            raise RankLost(f"{line}: {self._absence}") from None

    def _met(self, group: Sequence[int]) -> None:
        for rank in group:
            del self._waiting[rank]

    def send(self, rank: int, peer: int, number: int, source: Bytes, line: str) -> None:
        with self._sent:
            self._messages[rank, peer, number].append(source.copy())
            self._sent.notify_all()

    def receive(self, rank: int, peer: int, number: int, target: Bytes, line: str) -> None:
        deadline = time.monotonic() + self.timeout
        with self._sent:
            found = self._messages[peer, rank, number]
            self._waiting[rank] = Waiting((peer,), line)
            while not found:
                left = deadline - time.monotonic()
                if self._has_failed or left <= 0:
                    self._absence = self._absence or absence_text(rank, self._waiting, self.timeout)
                    raise RankLost(f"{line}: {self._absence}")
                self._sent.wait(left)
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
            self._barriers.clear()
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
            for barrier in self._barriers.values():
                barrier.abort()
            self._sent.notify_all()
