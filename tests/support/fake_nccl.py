"""NCCL without GPUs: a stand-in for the functions of its library, on the fake driver's streams.

It is stricter than NCCL: ranks that exchange different things, sends and receives that would wait for each
other, communicators that are used too early or too late, and streams and memory of other GPUs are assertions.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from support.cuda_handles import Context, CUresult, Stream, Work
from support.cuda_on_cpu import FakeDriver

from ocannl.runtime.cuda import mesh
from ocannl.runtime.cuda.nccl import BYTE, FUNCTIONS, IN_PROGRESS, SUCCESS, Int, Nccl

INTERNAL_ERROR, INVALID_USAGE, REMOTE_ERROR = 3, 5, 6
TEXTS = {
    INTERNAL_ERROR: b"internal error",
    INVALID_USAGE: b"invalid usage",
    REMOTE_ERROR: b"remote process exited or there was a network error",
}


class Board(Protocol):
    """Where ranks put what others take."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...


@dataclass
class OwnBoard:
    """That of one process."""

    found: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def put(self, key: str, data: bytes) -> None:
        assert key not in self.found
        self.found[key] = data

    def get(self, key: str) -> bytes | None:
        return self.found.get(key)


@dataclass
class FolderBoard:
    """That of several processes."""

    folder: Path

    def put(self, key: str, data: bytes) -> None:
        path = self.folder / key
        assert not path.exists()
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.rename(path)

    def get(self, key: str) -> bytes | None:
        path = self.folder / key
        return path.read_bytes() if path.exists() else None


@dataclass(eq=False)
class Comm:
    """A communicator, as one of its ranks has it."""

    name: str
    rank: int
    size: int
    context: Context
    is_settled: bool = False
    has_come_together: bool = False
    is_aborted: bool = False
    error: int = SUCCESS
    collectives: int = 0
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    received: dict[int, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Move:
    """A message of a group: what is put under a key, or taken from there."""

    comm: Comm
    stream: Stream
    key: str
    address: int
    size: int
    is_send: bool
    is_done: bool = False


class FakeNccl:
    """Stands for the library.

    Attributes:
        calls: the names of the functions that were called, but for looks at the state.
        said: what `ncclGetLastError` tells.
    """

    def __init__(self, driver: FakeDriver, board: Board) -> None:
        self.driver = driver
        self.board = board
        self.comms: dict[int, Comm] = {}
        self.calls: list[str] = []
        self.said = b""
        self.here = threading.local()

    @property
    def group(self) -> list[Move] | None:
        """That of this thread, if it is in one."""
        return getattr(self.here, "group", None)

    def library(self) -> Nccl:
        """The functions with the types that NCCL's have."""
        functions = {n: ctypes.CFUNCTYPE(Int, *types)(self.guarded(n)) for n, types in FUNCTIONS.items()}
        texts = {"ncclGetErrorString": TEXTS.get, "ncclGetLastError": lambda _: self.said}
        return Nccl(functions, texts)

    def guarded(self, name: str) -> Callable[..., int]:
        """A function that tells of assertions by its result, since C cannot raise."""
        function: Callable[..., int] = getattr(self, name)

        def call(*arguments: Any) -> int:
            if name != "ncclCommGetAsyncError":
                self.calls.append(name)
            try:
                with self.driver.lock:
                    return function(*arguments)
            except AssertionError as wrong:
                self.said = str(wrong).encode()
                return INTERNAL_ERROR

        return call

    def ncclGetUniqueId(self, found: Any) -> int:
        found.contents.internal = os.urandom(8).hex().encode()
        return SUCCESS

    def ncclCommInitRankConfig(self, comm: Any, count: int, name: Any, rank: int, config: Any) -> int:
        given = config.contents
        assert (given.size, given.magic, given.blocking) == (48, 0xCAFEBEEF, 0), "not a configuration"
        assert given.version == 21800
        assert name.internal, "no rank has made this name"
        assert 0 <= rank < count
        context = self.driver.here.context
        others = [c for c in self.comms.values() if c.name == name.internal.decode() and not c.is_aborted]
        if any(other.context is context for other in others):
            self.said = b"Duplicate GPU detected"
            return INVALID_USAGE
        made = Comm(name.internal.decode(), rank, count, context)
        self.board.put(f"{made.name} joins {rank}", str(count).encode())
        self.comms[id(made)] = made
        comm[0] = id(made)
        return IN_PROGRESS

    def used(self, handle: int) -> Comm:
        found = self.comms[handle]
        assert not found.is_aborted, "it was aborted"
        return found

    def ncclCommGetAsyncError(self, handle: int, state: Any) -> int:
        comm = self.used(handle)
        if not comm.has_come_together:
            found = [self.board.get(f"{comm.name} joins {rank}") for rank in range(comm.size)]
            comm.has_come_together = all(count == str(comm.size).encode() for count in found)
        comm.is_settled = comm.has_come_together
        state[0] = comm.error or (SUCCESS if comm.is_settled else IN_PROGRESS)
        return SUCCESS

    def ncclCommAbort(self, handle: int) -> int:
        self.used(handle).is_aborted = True
        return SUCCESS

    def in_stream(self, handle: int, stream: int, kind: int) -> tuple[Comm, Stream]:
        """The communicator and the stream of a call, which have to fit together."""
        comm = self.used(handle)
        assert comm.is_settled or self.group is not None, "the call before is still in progress"
        assert kind == BYTE
        (found,) = (own for own in self.driver.streams() if int(own) == stream)
        assert self.driver.alive[found] is comm.context, "the stream is that of another GPU"
        assert self.driver.here.context is comm.context, "another GPU is current"
        return comm, found

    def ncclAllGather(self, source: int, target: int, size: int, kind: int, handle: int, at: int) -> int:
        assert self.group is None
        comm, stream = self.in_stream(handle, at, kind)
        given, taken = self.driver.host(source, size), self.driver.host(target, size * comm.size)
        key, comm.collectives = f"{comm.name} {comm.collectives}", comm.collectives + 1
        has_put = False

        def work() -> CUresult | None:
            nonlocal has_put
            if comm.is_aborted:
                return CUresult.CUDA_SUCCESS
            if not has_put:
                self.board.put(f"{key} of {comm.rank}", ctypes.string_at(given, size))
                has_put = True
            found = [self.board.get(f"{key} of {rank}") for rank in range(comm.size)]
            if any(part is None for part in found):
                return None
            assert [len(part or b"") for part in found] == [size] * comm.size, "ranks gather different sizes"
            ctypes.memmove(taken, b"".join(part or b"" for part in found), size * comm.size)
            return CUresult.CUDA_SUCCESS

        comm.is_settled = False
        return self.enqueued(stream, work)

    def enqueued(self, stream: Stream, work: Work) -> int:
        def counted() -> CUresult | None:
            result = work()
            stream.exchanges -= result is not None
            return result

        stream.exchanges += 1
        self.driver.enqueue(stream, counted)
        return IN_PROGRESS

    def ncclGroupStart(self) -> int:
        assert self.group is None
        self.here.group = list[Move]()
        return SUCCESS

    def ncclSend(self, source: int, size: int, kind: int, peer: int, handle: int, at: int) -> int:
        return self.message(source, size, kind, peer, handle, at, is_send=True)

    def ncclRecv(self, target: int, size: int, kind: int, peer: int, handle: int, at: int) -> int:
        return self.message(target, size, kind, peer, handle, at, is_send=False)

    def message(
        self, address: int, size: int, kind: int, peer: int, handle: int, at: int, *, is_send: bool
    ) -> int:
        assert self.group is not None, "messages that wait for each other are in a group"
        comm, stream = self.in_stream(handle, at, kind)
        counts = comm.sent if is_send else comm.received
        source, target = (comm.rank, peer) if is_send else (peer, comm.rank)
        key, counts[peer] = f"{comm.name} {source} to {target} {counts[peer]}", counts[peer] + 1
        self.group.append(Move(comm, stream, key, self.driver.host(address, size), size, is_send))
        return SUCCESS

    def ncclGroupEnd(self) -> int:
        assert self.group, "nothing is in the group"
        moves, self.here.group = self.group, None
        (stream,) = {move.stream for move in moves}
        for move in moves:
            move.comm.is_settled = False

        def work() -> CUresult | None:
            if moves[0].comm.is_aborted:
                return CUresult.CUDA_SUCCESS
            done = [move.is_done or self.moved(move) for move in moves]
            return CUresult.CUDA_SUCCESS if all(done) else None

        return self.enqueued(stream, work)

    def moved(self, move: Move) -> bool:
        """Whether a message has come to its target: a send ends no sooner."""
        sent = self.board.get(move.key)
        if move.is_send and sent is None:
            self.board.put(move.key, ctypes.string_at(move.address, move.size))
        elif not move.is_send and sent is not None:
            assert len(sent) == move.size, "the message has another size"
            ctypes.memmove(move.address, sent, move.size)
            self.board.put(f"{move.key} has come", b"")
            move.is_done = True
        if move.is_send:
            move.is_done = self.board.get(f"{move.key} has come") is not None
        return move.is_done

    def messages(self) -> Sequence[str]:
        """The calls that move something."""
        return [name for name in self.calls if name in ("ncclAllGather", "ncclGroupEnd")]


def install_nccl(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver, board: Board | None = None) -> FakeNccl:
    """Puts a library in place of NCCL's."""
    found = FakeNccl(driver, OwnBoard() if board is None else board)
    library = found.library()
    monkeypatch.setattr(mesh, "nccl", lambda: library)
    return found
