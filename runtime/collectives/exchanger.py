"""The function that compiled code calls for collectives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ocannl.runtime.collectives.engine import Bytes, Engine, Repeated
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.interface import Exchange

Callback = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class Exchanger:
    """The collectives of one rank in a routine. After the first error they do nothing."""

    def __init__(self, engine: Engine, grid: Grid, rank: int, exchanges: Sequence[Exchange]) -> None:
        self.engine = engine
        self.rank = rank
        self.failure: BaseException | None = None
        self._exchanges = [(exchange, grid.group(rank, exchange.mesh)) for exchange in exchanges]
        self._ready: dict[tuple[int, int, int], Callable[[], None]] = {}
        """The action of each collective, by its number and addresses."""
        self._repeated: dict[tuple[str, str, int, int, int], Repeated] = {}
        """Exchanges by what they do and their addresses: their starts and waits have numbers of their own."""
        self._callback = Callback(self._exchange)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _exchange(self, number: int, target: int, source: int) -> None:
        if self.failure is not None:
            return
        try:
            key = number, target, source
            if (ready := self._ready.get(key)) is None:
                ready = self._ready[key] = self._made_ready(*key)
            ready()
        except BaseException as error:  # compiled code cannot raise: the run does
            self.failure = error
            self.engine.fail()

    def _made_ready(self, number: int, target: int, source: int) -> Callable[[], None]:
        exchange, group = self._exchanges[number]
        rank, line = self.rank, exchange.line
        if exchange.message is not None:
            message, peer = exchange.message
            move = self.engine.send if exchange.kind == "send" else self.engine.receive
            return partial(move, rank, group[peer], message, _view(target, exchange.bytes), line)
        repeated = self._exchange_between(exchange, group, target, source)
        match exchange.phase:
            case "start":
                return repeated.start
            case "wait":
                return repeated.finish
            case _:
                return partial(at_once, repeated)

    def _exchange_between(
        self, exchange: Exchange, group: Sequence[int], target: int, source: int
    ) -> Repeated:
        key = exchange.kind, exchange.mesh, exchange.bytes, target, source
        if key not in self._repeated:
            received = exchange.bytes * (len(group) if exchange.kind == "all_gather" else 1)
            given = _view(target, received), _view(source, exchange.bytes)
            self._repeated[key] = self.engine.repeated(self.rank, group, exchange.kind, *given, exchange.line)
        return self._repeated[key]

    def raise_first(self) -> None:
        """Raises the first error of the runs so far, if there was one, and forgets it."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


def at_once(repeated: Repeated) -> None:
    repeated.start()
    repeated.finish()


def _view(address: int, size: int) -> Bytes:
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B"), np.uint8)
