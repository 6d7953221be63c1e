"""The engine `threads`: ranks are threads of this process, which copy from each other between barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError, Lock
from typing import Any, TypeVar

from numpy.typing import NDArray

from ocannl.runtime.collectives.engine import Bytes, RankLost

R = TypeVar("R")


class ThreadsEngine:
    """All ranks of a mesh in one process."""

    def __init__(self, ranks: int, timeout: float) -> None:
        self.ranks: Sequence[int] = range(ranks)
        self.timeout = timeout
        self._sources: dict[int, Bytes] = {}
        self._barriers: dict[tuple[int, ...], Barrier] = {}
        self._lock = Lock()
        self._has_failed = False
        self._pool = ThreadPoolExecutor(ranks, "rank")

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        self._sources[rank] = source
        self._meet(group, line)
        rows, own = target.reshape(len(group), -1), group.index(rank)
        for row, peer in zip(rows, group, strict=True):
            theirs = self._sources[peer]
            row[:] = theirs if kind == "all_gather" else theirs.reshape(rows.shape)[own]
        self._meet(group, line)

    def _meet(self, group: Sequence[int], line: str) -> None:
        with self._lock:
            barrier = self._barriers.setdefault(tuple(group), Barrier(len(group)))
            if self._has_failed:
                barrier.abort()
        try:
            barrier.wait(self.timeout)
        except BrokenBarrierError:
            raise RankLost(f"{line}: a rank did not come to this collective") from None

    def together(self, functions: Sequence[Callable[[], R]]) -> list[R]:
        futures = [self._pool.submit(function) for function in functions]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            self._barriers.clear()
            self._has_failed = False
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
