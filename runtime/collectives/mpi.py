"""The engine `mpi`: each process is a rank, and mpi4py moves the bytes."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.collectives.engine import Bytes, RankLost

R = TypeVar("R")
# Messages are polled in a loop for so long, and then with pauses: other threads may need the core.
BUSY_SECONDS, PAUSE_SECONDS = 1e-3, 5e-5


def mpi_engine(ranks: int, timeout: float) -> MpiEngine:
    """The engine of this process. Raises `DeviceError` where mpi4py or an MPI library is missing, or there
    are not as many processes as ranks.
    """
    world = _world()
    if world.size != ranks:
        raise DeviceError(
            f"the mesh has {ranks} ranks, but {world.size} processes run: `mpirun -n {ranks} python ...`"
        )
    return MpiEngine(world, timeout)


@cache
def _world() -> Any:
    """All processes. A process that fails ends all of them; only rank 0 prints."""
    try:
        mpi: Any = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DeviceError(
            f"ranks talk by mpi4py: `pip install ocannl[mpi]`, or Mesh(..., engine='threads') ({error})"
        ) from None
    world: Any = mpi.COMM_WORLD
    if world.size > 1:
        before = sys.excepthook

        def end_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            sys.stderr.write(f"rank {world.rank} of {world.size} failed:\n")
            before(kind, error, trace)
            sys.stderr.flush()
            world.Abort(1)

        sys.excepthook = end_all
        if world.rank:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
    return world


class MpiEngine:
    """This process as one rank of all."""

    def __init__(self, world: Any, timeout: float) -> None:
        self.world = world
        self.timeout = timeout
        self.ranks: Sequence[int] = (world.rank,)

    def exchange(
        self, rank: int, group: Sequence[int], kind: str, target: Bytes, source: Bytes, line: str
    ) -> None:
        into, own = target.reshape(len(group), -1), group.index(rank)
        outof = [source] * len(group) if kind == "all_gather" else [*source.reshape(into.shape)]
        peers = [(k, peer) for k, peer in enumerate(group) if peer != rank]
        receives = [(peer, self.world.Irecv(into[k], peer)) for k, peer in peers]
        sends = [(peer, self.world.Isend(outof[k], peer)) for k, peer in peers]
        into[own] = outof[own]
        self._wait([*receives, *sends], line)

    def _wait(self, waiting: list[tuple[int, Any]], line: str) -> None:
        """Polls until all requests are through."""
        start = time.monotonic()
        while waiting := [(peer, request) for peer, request in waiting if not request.Test()]:
            spent = time.monotonic() - start
            if spent > self.timeout:
                lost = ", ".join(f"rank {peer}" for peer in dict.fromkeys(peer for peer, _ in waiting))
                raise RankLost(f"{line}: {lost} did not answer within {self.timeout:g} s")
            if spent > BUSY_SECONDS:
                time.sleep(PAUSE_SECONDS)

    def together(self, functions: Sequence[Callable[[], R]]) -> list[R]:
        return [function() for function in functions]

    def all_parts(self, parts: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        (part,) = parts
        found = np.empty((self.world.size, *part.shape), part.dtype)
        given = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        self._gather(found.reshape(-1).view(np.uint8), given, _user_line())
        return [*found]

    def _gather(self, target: Bytes, source: Bytes, line: str) -> None:
        self.exchange(self.world.rank, range(self.world.size), "all_gather", target, source, line)

    def check_same(self, what: str, content: bytes) -> None:
        own = np.frombuffer(content, np.uint8)
        found = np.empty((self.world.size, own.size), np.uint8)
        self._gather(found.reshape(-1), own, _user_line())
        others = [k for k, other in enumerate(found) if not np.array_equal(other, found[0])]
        if others:
            ranks = ", ".join(f"rank {k}" for k in others)
            raise DeviceError(f"{what} is another one on {ranks} than on rank 0: all ranks run one program")

    def fail(self) -> None:
        """The error that ends this process ends the others."""


def _user_line() -> str:
    """The line of the program that is running."""
    frames = [f for f in traceback.extract_stack() if "ocannl" not in f.filename.split(os.sep)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "ocannl"
