"""The engine `mpi`: each process is a rank, and mpi4py moves the bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.collectives.engine import Bytes, Repeated
from ocannl.runtime.collectives.lost_ranks import names
from ocannl.runtime.collectives.mpi_wait import Elsewhere, Requests, Wait
from ocannl.runtime.collectives.mpi_world import world

R = TypeVar("R")
KINDS = ("all_gather", "all_to_all")
# Messages of other sizes have other tags, up to the least bound of tags in MPI: ranks that do different
# things wait in vain, in place of taking what is not for them.
FIRST_TAG, TAGS = 2, 24000
# Messages between two ranks have tags of their own, by their numbers.
FIRST_MESSAGE, MESSAGES = FIRST_TAG + TAGS, 8000
LOOKS = 50
"""How often messages are looked for before their sender may be lost."""


def mpi_engine(ranks: int, timeout: float, user_line: Callable[[], str]) -> MpiEngine:
    """The engine of this process; `user_line` tells which line of the program is running.

    Raises `DeviceError` where mpi4py or an MPI library is missing, or there are not as many processes as
    ranks.
    """
    processes = world(timeout)
    if processes.size != ranks:
        run = "1 process runs" if processes.size == 1 else f"{processes.size} processes run"
        way = f"`mpirun -n {ranks} python ...`"
        if processes.size == 1:
            way += ', or oc.Mesh(..., engine="threads") for ranks in this process'
        raise DeviceError(f"the mesh has {ranks} ranks, but {run}: {way}")
    return MpiEngine(processes, timeout, user_line)


class MpiEngine:
    """This process as one rank of all."""

    def __init__(self, world: Any, timeout: float, user_line: Callable[[], str]) -> None:
        self.world = world
        self.timeout = timeout
        self.user_line = user_line
        self.ranks: Sequence[int] = (world.rank,)
        self.sent: list[Any] = []
        """Questions and answers for ranks that may be lost."""
        self._messages: list[tuple[int, Any, Bytes, str]] = []
        """Messages that may not have gone yet: to whom, and from which line."""

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        own, requests = self._requests(self.world.Irecv, self.world.Isend, rank, group, kind, target, source)
        own[0][...] = own[1]
        Wait(self.world, self.timeout, line, self.sent).until(requests)

    def repeated(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> Repeated:
        """Its requests are persistent: a run starts them, without arguments for mpi4py to look at."""
        receive, send = self.world.Recv_init, self.world.Send_init
        own, requests = self._requests(receive, send, rank, group, kind, target, source)
        return PersistentRequests(self, *own, requests, line)

    def _requests(
        self,
        receive: Callable[..., Any],
        send: Callable[..., Any],
        rank: int,
        group: Sequence[int],
        kind: str,
        target: Bytes,
        source: Bytes,
    ) -> tuple[tuple[Bytes, Bytes], Requests]:
        """The rows from and to the rank itself, and requests for the others, each with the other rank."""
        into, own = target.reshape(len(group), -1), group.index(rank)
        outof = [source] * len(group) if kind == "all_gather" else [*source.reshape(into.shape)]
        peers = [(k, peer) for k, peer in enumerate(group) if peer != rank]
        tag = FIRST_TAG + (2 * source.size + KINDS.index(kind)) % TAGS
        receives = [(peer, receive(into[k], peer, tag)) for k, peer in peers]
        sends = [(peer, send(outof[k], peer, tag)) for k, peer in peers]
        return (into[own], outof[own]), [*receives, *sends]

    def send(self, rank: int, peer: int, number: int, source: Bytes, line: str) -> None:
        message = source.copy()
        request = self.world.Isend(message, peer, FIRST_MESSAGE + number % MESSAGES)
        self._messages.append((peer, request, message, line))
        self._messages = [sent for sent in self._messages if not sent[1].Test()]

    def receive(self, rank: int, peer: int, number: int, target: Bytes, line: str) -> None:
        request = self.world.Irecv(target, peer, FIRST_MESSAGE + number % MESSAGES)
        Wait(self.world, self.timeout, line, self.sent).until([(peer, request)])

    def wait(self, rank: int, group: Sequence[int], is_done: Callable[[], bool], line: str) -> None:
        elsewhere = Elsewhere(is_done)
        peers = [(peer, elsewhere) for peer in group if peer != rank]
        Wait(self.world, self.timeout, line, self.sent).until(peers)

    def flush(self) -> None:
        if self._messages:
            requests = [(peer, request) for peer, request, _, _ in self._messages]
            Wait(self.world, self.timeout, self._messages[0][3], self.sent).until(requests)
            self._messages.clear()

    def together(self, functions: Sequence[Callable[[], R]]) -> list[R]:
        return [function() for function in functions]

    def all_parts(self, parts: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        (part,) = parts
        found = np.empty((self.world.size, *part.shape), part.dtype)
        given = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        self._gather(found.reshape(-1).view(np.uint8), given, self.user_line())
        return [*found]

    def _gather(self, target: Bytes, source: Bytes, line: str) -> None:
        self.exchange(self.world.rank, range(self.world.size), "all_gather", target, source, line)

    def check_same(self, what: str, content: bytes) -> None:
        own = np.frombuffer(content, np.uint8)
        found = np.empty((self.world.size, own.size), np.uint8)
        line = self.user_line()
        self._gather(found.reshape(-1), own, line)
        others = [k for k, other in enumerate(found) if not np.array_equal(other, found[0])]
        if others:
            theirs = f"{what} is another one on {names(others)} than on rank 0"
            raise DeviceError(f"{line}: {theirs}: all ranks run one program, with the same values")

    def fail(self) -> None:
        """The error that ends this process ends the others."""


class PersistentRequests:
    """An exchange that was made ready: the requests for its messages, each with the other rank, and the row
    that stays.
    """

    def __init__(
        self, engine: MpiEngine, target: Bytes, source: Bytes, requests: Requests, line: str
    ) -> None:
        self.engine = engine
        self.target = target
        self.source = source
        self.requests = requests
        self.line = line
        self.started = [request for _, request in requests]
        weakref.finalize(self, give_back, self.started)

    def start(self) -> None:
        for request in self.started:
            request.Start()
        self.target[...] = self.source

    def finish(self) -> None:
        # Most come at once: a wait that finds lost ranks begins when some do not.
        for _ in range(LOOKS):
            if all(request.Test() for request in self.started):
                return
        Wait(self.engine.world, self.engine.timeout, self.line, self.engine.sent).until(self.requests)


def give_back(requests: Sequence[Any]) -> None:
    """Frees requests, of which MPI would complain at its end."""
    for request in requests:
        request.Free()
