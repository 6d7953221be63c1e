"""Ranks that are threads, with the functions of mpi4py that the engine calls."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Post:
    """The messages between some ranks."""

    size: int
    lock: Lock = field(default_factory=Lock)
    boxes: dict[tuple[int, int, int], deque[Any]] = field(default_factory=lambda: defaultdict(deque))
    """Messages on their way, by source, target and tag."""

    def put(self, source: int, target: int, tag: int, message: Any) -> None:
        with self.lock:
            self.boxes[source, target, tag].append(message)

    def take(self, source: int, target: int, tag: int) -> list[Any]:
        """The next message, or none."""
        with self.lock:
            box = self.boxes[source, target, tag]
            return [box.popleft()] if box else []


@dataclass
class Sent:
    def Test(self) -> bool:
        return True


@dataclass
class Received:
    """A message that comes, once."""

    post: Post
    place: tuple[int, int, int]
    target: NDArray[np.uint8]
    done: bool = False

    def Free(self) -> None:
        """MPI counts requests that were not freed."""

    def Start(self) -> None:
        assert self.done, "it has not come since the last start"
        self.done = False

    def Test(self) -> bool:
        if not self.done:
            for message in self.post.take(*self.place):
                self.target[...] = message
                self.done = True
        return self.done


@dataclass
class Starting(Sent):
    """A message that is sent as it is at each start."""

    world: FakeWorld
    source: NDArray[np.uint8]
    peer: int
    tag: int

    def Free(self) -> None:
        """As above."""

    def Start(self) -> None:
        self.world.Isend(self.source, self.peer, self.tag)


@dataclass
class FakeWorld:
    """All ranks, as one of them sees them."""

    rank: int
    post: Post

    @property
    def size(self) -> int:
        return self.post.size

    def Irecv(self, target: NDArray[np.uint8], peer: int, tag: int) -> Received:
        return Received(self.post, (peer, self.rank, tag), target)

    def Isend(self, source: NDArray[np.uint8], peer: int, tag: int) -> Sent:
        self.post.put(self.rank, peer, tag, source.copy())
        return Sent()

    def Recv_init(self, target: NDArray[np.uint8], peer: int, tag: int) -> Received:
        return Received(self.post, (peer, self.rank, tag), target, done=True)

    def Send_init(self, source: NDArray[np.uint8], peer: int, tag: int) -> Starting:
        return Starting(self, source, peer, tag)

    def isend(self, message: object, peer: int, tag: int) -> Sent:
        self.post.put(self.rank, peer, tag, message)
        return Sent()

    def iprobe(self, *, tag: int) -> bool:
        with self.post.lock:
            return any(self.post.boxes[peer, self.rank, tag] for peer in range(self.size))

    def recv(self, *, tag: int) -> Any:
        return next(m for peer in range(self.size) for m in self.post.take(peer, self.rank, tag))
