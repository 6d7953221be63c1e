"""The interface of engines: they move bytes between ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import DeviceError

Bytes = NDArray[np.uint8]
R = TypeVar("R")


class RankLost(DeviceError):
    """Another rank failed, or did not come to a collective in time."""


class Repeated(Protocol):
    """An exchange of the same memory each time, made ready once."""

    def start(self) -> None:
        """Begins it, and waits for nobody. Until the end, nothing else touches the target or writes the
        source.
        """
        ...

    def finish(self) -> None:
        """Waits for its end. Raises `RankLost` that names ranks which did not come in time, and the user's
        line.
        """
        ...


class Engine(Protocol):
    """Ranks, some of them in this process."""

    @property
    def ranks(self) -> Sequence[int]:
        """The ranks in this process."""
        ...

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        """A rank's share of an exchange among a group: `all_gather` or `all_to_all`.

        Raises `RankLost` that names ranks which did not come in time, and the user's line.
        """
        ...

    def repeated(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> Repeated: ...

    def send(self, rank: int, peer: int, number: int, source: Bytes, line: str) -> None:
        """Sends a message, which has a number, to another rank, and does not wait until it has come."""
        ...

    def receive(self, rank: int, peer: int, number: int, target: Bytes, line: str) -> None:
        """Waits for the message of a number from another rank: those of one number come in order.

        Raises `RankLost` where it does not come in time.
        """
        ...

    def flush(self) -> None:
        """Waits until what the ranks of this process have sent needs nothing of them any more."""
        ...

    def wait(self, rank: int, group: Sequence[int], is_done: Callable[[], bool], line: str) -> None:
        """Waits for what a rank does with others in another way, as on a GPU. Raises `RankLost`."""
        ...

    def together(self, functions: Sequence[Callable[[], R]]) -> list[R]:
        """Calls a function for each rank of this process. Raises the error of the first rank that failed."""
        ...

    def all_parts(self, parts: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """The parts of all ranks, for those of the ranks of this process. Raises `RankLost`."""
        ...

    def check_same(self, what: str, content: bytes) -> None:
        """Raises `DeviceError` unless all processes have the same content."""
        ...

    def fail(self) -> None:
        """Lets other ranks of this process know that one has failed."""
        ...
