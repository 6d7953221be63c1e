"""Ranks that are threads, with the functions of mpi4py that the engine calls."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Place: TypeAlias = tuple[int, int, int]
"""The source, the target and the tag of messages."""


@dataclass
class Post:
    """The messages between some ranks."""

    size: int
    lock: Lock = field(default_factory=Lock)
    boxes: dict[Place, deque[Any]] = field(default_factory=lambda: defaultdict(deque))
    """Messages on their way."""
    posted: dict[Place, deque[Received]] = field(default_factory=lambda: defaultdict(deque))
    """Receives that have begun: a message goes to the first of them, whichever is tested first."""

    def put(self, source: int, target: int, tag: int, message: Any) -> None:
        place = source, target, tag
        with self.lock:
            if self.posted[place]:
                self.posted[place].popleft().take(message)
            else:
                self.boxes[place].append(message)

    def begin(self, receive: Received) -> None:
        with self.lock:
            box = self.boxes[receive.place]
            if box:
                receive.take(box.popleft())
            else:
                self.posted[receive.place].append(receive)

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
    place: Place
    target: NDArray[np.uint8]
    done: bool = True

    def Free(self) -> None:
        """MPI counts requests that were not freed."""

    def Start(self) -> None:
        assert self.done, "it has not come since the last start"
        self.done = False
        self.post.begin(self)

    def take(self, message: NDArray[np.uint8]) -> None:
        self.target[...] = message
        self.done = True

    def Test(self) -> bool:
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
        receive = self.Recv_init(target, peer, tag)
        receive.Start()
        return receive

    def Isend(self, source: NDArray[np.uint8], peer: int, tag: int) -> Sent:
        self.post.put(self.rank, peer, tag, source.copy())
        return Sent()

    def Recv_init(self, target: NDArray[np.uint8], peer: int, tag: int) -> Received:
        return Received(self.post, (peer, self.rank, tag), target)

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
