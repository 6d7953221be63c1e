"""Runs of functions of this process, compiled or called back, on blocks of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from ocannl.runtime.device import Memory
from ocannl.runtime.host.loop_driver import run_loop
from ocannl.runtime.memory import ArgBlock, HostMemory, bind_call


class Failures(Protocol):
    """The errors of runs: on a GPU, on an emulated one that checks accesses, or with other ranks."""

    def raise_first(self) -> None:
        """Raises the first error, if there is one, and forgets it."""
        ...


class HostRun:
    """A function `void f(ptr args)` on a block of arguments."""

    def __init__(self, function: int, args: ArgBlock, failures: Failures | None = None) -> None:
        self.function = function
        self.args = args
        self.failures = failures
        self.run = bind_call(function, args)
        self.call = self.run if failures is None else _checked(self.run, failures)

    def raise_failure(self) -> None:
        if self.failures is not None:
            self.failures.raise_first()

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        arrays = [memory.array for memory in record if isinstance(memory, HostMemory)]
        assert len(arrays) == len(record), "routines on the CPU have memory there"
        return run_loop(
            self.function,
            self.args,
            epochs=epochs,
            ranged=ranged,
            advance=advance,
            record=arrays,
            check=self.raise_failure,
        )


def _checked(run: Callable[[], None], failures: Failures) -> Callable[[], None]:
    """A run that raises its error: no method, which would keep what it is of until the collector comes."""

    def run_and_raise() -> None:
        run()
        failures.raise_first()

    return run_and_raise
