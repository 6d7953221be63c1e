"""The threads that share the parallel loops of a context's routines."""

from __future__ import annotations

from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.cpu.openmp import FUNCTIONS, OpenMP, openmp
from ocannl.runtime.memory import aligned_array
from ocannl.runtime.systems.forks import at_fork


class Team:
    """The threads of an OpenMP runtime, as many as wanted; one if there is no runtime.

    A team of one never calls the runtime. Neither does a team in a forked process: libgomp's threads do not
    survive the fork, and waiting for them would never end.
    """

    def __init__(self, threads: int) -> None:
        self.wanted = threads
        self.memory: NDArray[np.int64] = aligned_array((1 + len(FUNCTIONS),), np.int64).view(np.int64)
        """The number of threads and the addresses of the runtime's functions, as compiled code reads them."""
        self.memory[0] = 1
        _teams.add(self)

    @property
    def runtime(self) -> OpenMP | None:
        """The OpenMP runtime of the threads; None for a team of one."""
        return None if self.wanted == 1 or _state.is_forked else openmp()

    @property
    def threads(self) -> int:
        """How many threads run parallel loops."""
        return 1 if self.runtime is None else self.wanted

    def start(self) -> NDArray[np.int64]:
        """Looks for the runtime, and returns the memory that compiled code reads."""
        runtime = self.runtime
        if runtime is not None:
            self.memory[:] = self.wanted, *runtime.functions
        return self.memory

    def __str__(self) -> str:
        if self.runtime is not None:
            return f"{self.wanted} threads of {self.runtime.name}"
        if self.wanted == 1:
            return "1 thread"
        reason = "this process was forked" if _state.is_forked else "there is no OpenMP runtime"
        return f"1 thread, since {reason}"


class _State:
    is_forked = False


_state = _State()
_teams: WeakSet[Team] = WeakSet()


def _after_fork() -> None:
    _state.is_forked = True
    for team in _teams:
        team.memory[0] = 1


at_fork(_after_fork)
