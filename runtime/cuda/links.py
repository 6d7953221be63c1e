"""Exchanges of the GPUs of a mesh, and how their hosts wait for these."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ocannl.dialects.assign.collective import START, WAIT
from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass
from ocannl.runtime.collectives.engine import Engine, RankLost
from ocannl.runtime.cuda.communicator import Communicator
from ocannl.runtime.cuda.gpu import Gpu, do_nothing
from ocannl.runtime.cuda.nccl import NcclError
from ocannl.runtime.interface import Exchange

# A host is ahead of its GPU by so many exchanges at most: launches block when the driver's queue is full,
# which would be a hang where another rank is lost.
MOST_STARTED = 64
# What was started is waited for so long when the mesh is given up.
CLOSING_SECONDS, PAUSE_SECONDS = 10.0, 1e-3


@dataclass(eq=False)
class Started:
    """An exchange in a GPU's stream, which has ended when the event has come."""

    event: Any
    communicator: Communicator
    line: str
    is_awaited: bool = False
    """Whether kernels wait for it, or have done so."""
    has_ended: bool = False


@dataclass
class Fate:
    """The first failure of any rank of this process, after which none exchanges anything."""

    failure: str = ""
    communicators: list[Communicator] = field(default_factory=list[Communicator])
    lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def open(self) -> Generator[None]:
        """A context in which communicators are there: none is aborted by another rank. Raises `RankLost`
        after a failure.
        """
        with self.lock:
            self.check()
            yield

    def check(self) -> None:
        """Raises `RankLost` after a failure."""
        if self.failure:
            raise RankLost(f"the GPUs of this mesh exchange nothing any more: {self.failure}")

    def fail(self, error: Exception) -> None:
        """Ends what waits on the GPUs of this process, which would else wait for ever."""
        with self.lock:
            if not self.failure:
                self.failure = str(error) or type(error).__name__
                for communicator in self.communicators:
                    communicator.abort()


class RankLinks:
    """The communicators of a rank's GPU by mesh axis, and the exchanges that may be on their way. These have
    a stream of their own, so that kernels run beside them.
    """

    def __init__(self, engine: Engine, rank: int, gpu: Gpu, fate: Fate) -> None:
        self.engine = engine
        self.rank = rank
        self.gpu = gpu
        self.fate = fate
        self.communicators: dict[str, Communicator] = {}
        self.started = deque[Started]()
        self.flying: dict[tuple[int, int], Started] = {}
        """Exchanges for which kernels do not wait yet, by target and source."""
        self.idle: list[Any] = []
        """Events that can be recorded again."""
        self.stream: Any = None
        """That of exchanges, and an event between it and that of kernels, once there is an exchange."""
        self.computed: Any = None
        gpu.before_waiting = self.watch

    def exchange(self, exchange: Exchange, target: int, source: int) -> None:
        """Starts an exchange between addresses of the GPU, lets kernels wait for it, or both, as its phase
        says. Raises `DeviceError`.
        """
        if exchange.phase != WAIT:
            self.start(exchange, target, source)
        if exchange.phase != START:
            self.let_kernels_wait(exchange, target, source)

    def let_kernels_wait(self, exchange: Exchange, target: int, source: int) -> None:
        """Lets kernels that come after this run when an exchange has ended."""
        started = self.flying.pop((target, source))
        with self.ending_all(exchange.line):
            self.gpu.enter()
            self.gpu.ask("cuStreamWaitEvent", self.gpu.stream, started.event, 0)
        started.is_awaited = True
        self.reuse(started)

    def reuse(self, started: Started) -> None:
        """Takes back the event of an exchange for which nobody waits any more."""
        if started.is_awaited and started.has_ended:
            self.idle.append(started.event)

    def after_kernels(self) -> Any:
        """The stream of exchanges, in which what follows waits for the kernels so far."""
        gpu = self.gpu
        if self.stream is None:
            self.stream = gpu.ask(
                "cuStreamCreate", gpu.driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING.value
            )
            self.computed = self.new_event()
        gpu.ask("cuEventRecord", self.computed, gpu.stream)
        gpu.ask("cuStreamWaitEvent", self.stream, self.computed, 0)
        return self.stream

    def start(self, exchange: Exchange, target: int, source: int) -> None:
        """Puts an exchange after the kernels so far. Raises `DeviceError`."""
        self.fate.check()
        if len(self.started) >= MOST_STARTED:
            self.wait_for_first()
        communicator = self.communicators[exchange.mesh]
        with self.ending_all(exchange.line):
            self.gpu.enter()
            move = communicator.all_gather if exchange.kind == "all_gather" else communicator.all_to_all
            stream = self.after_kernels()
            with self.fate.open():
                move(target, source, exchange.bytes, int(stream))
            self.settle(communicator, exchange.line)
            started = Started(self.recorded(), communicator, exchange.line)
            self.started.append(started)
            self.flying[target, source] = started

    def recorded(self) -> Any:
        """An event that comes when all exchanges so far have ended."""
        event = self.idle.pop() if self.idle else self.new_event()
        self.gpu.ask("cuEventRecord", event, self.stream)
        return event

    def new_event(self) -> Any:
        return self.gpu.ask("cuEventCreate", self.gpu.driver.api.CUevent_flags.CU_EVENT_DISABLE_TIMING.value)

    def all_events(self) -> list[Any]:
        """The events that were made."""
        used = dict.fromkeys([*self.started, *self.flying.values()])
        return [*self.idle, *(started.event for started in used), *([self.computed] if self.stream else [])]

    def come_together(self, axis: str) -> None:
        """Waits until all ranks along an axis have come. Raises `DeviceError`."""
        line = f'the GPUs along "{axis}"'
        with self.ending_all(line):
            self.settle(self.communicators[axis], line)

    def settle(self, communicator: Communicator, line: str) -> None:
        """Waits until a communicator has done what was asked of it, other than on the GPU."""
        if not self.is_settled(communicator):
            self.wait(communicator, lambda: self.is_settled(communicator), line)

    def is_settled(self, communicator: Communicator) -> bool:
        """Whether what was asked of a communicator is under way."""
        with self.fate.open():
            return communicator.is_settled()

    def watch(self) -> None:
        """Waits for all exchanges. Raises `RankLost`, with the names of ranks that do not come, and the line
        of the program; `DeviceError` for errors of NCCL and of the GPU.
        """
        while self.started:
            self.wait_for_first()

    def wait_for_first(self) -> None:
        self.fate.check()
        first = self.started[0]

        def has_ended() -> bool:
            return self.is_settled(first.communicator) and has_come(self.gpu, first.event)

        with self.ending_all(first.line):
            self.gpu.enter()
            if not has_ended():
                self.wait(first.communicator, has_ended, first.line)
        first.has_ended = True
        self.reuse(self.started.popleft())

    def wait(self, communicator: Communicator, is_done: Callable[[], bool], line: str) -> None:
        def is_done_or_failed() -> bool:
            self.fate.check()
            return is_done()

        self.engine.wait(self.rank, communicator.group, is_done_or_failed, line)

    @contextmanager
    def ending_all(self, line: str) -> Generator[None]:
        """A context whose errors, those of NCCL with the line, end the exchanges of all ranks here."""
        try:
            yield
        except Exception as error:  # GPUs of other ranks would wait for this one, whatever has failed.
            told = DeviceError(f"{line}: {error}") if isinstance(error, NcclError) else error
            self.fate.fail(told)
            raise told from None


class GpuExchanger:
    """The collectives of one rank in a routine."""

    address = 0
    """None: the host puts exchanges between kernels."""

    def __init__(self, links: RankLinks, exchanges: Sequence[Exchange]) -> None:
        self.links = links
        self.exchanges = exchanges

    def exchange(self, number: int, target: int, source: int) -> None:
        self.links.exchange(self.exchanges[number], target, source)

    def raise_first(self) -> None:
        """Nothing: errors are raised where they are seen."""


def has_come(gpu: Gpu, event: Any) -> bool:
    """Whether an event has come. Raises `DeviceError` for errors of what was before it."""
    (code,) = gpu.driver.api.cuEventQuery(event)
    if code == gpu.driver.api.CUresult.CUDA_ERROR_NOT_READY:
        return False
    if code:
        raise gpu.explained(gpu.driver.error("the GPU failed", code))
    return True


def close(ranks: Sequence[RankLinks], fate: Fate) -> None:
    """Waits for a while for what other ranks need, and then gives communicators and events back."""
    deadline = time.monotonic() + CLOSING_SECONDS
    for links in ranks:
        api = links.gpu.driver.api
        api.cuCtxSetCurrent(links.gpu.context)
        while links.started and not fate.failure and time.monotonic() < deadline:
            (code,) = api.cuEventQuery(links.started[-1].event)
            if code != api.CUresult.CUDA_ERROR_NOT_READY:
                break
            time.sleep(PAUSE_SECONDS)
    fate.fail(DeviceError("it was given up"))
    for links in ranks:
        links.gpu.driver.api.cuCtxSetCurrent(links.gpu.context)
        for event in links.all_events():
            links.gpu.driver.api.cuEventDestroy(event)
        if links.stream is not None:
            links.gpu.driver.api.cuStreamDestroy(links.stream)
        links.gpu.before_waiting = do_nothing
    fate.communicators.clear()
