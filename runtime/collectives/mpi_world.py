"""The processes of an MPI program."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import time
from functools import cache
from types import TracebackType
from typing import Any

from ocannl.dialects.ir.errors import DeviceError

# The seconds in which a launcher passes on what a process has written, before it ends all.
PASSED_ON = 0.2
# The seconds that a rank leaves to each one before it, to so many at most, to tell of an error that all have.
TURN, MOST_TURNS = 0.5, 4


def world(timeout: float) -> Any:
    """All processes. A process that fails ends all of them; only rank 0 prints. Where others do not start
    within a timeout in seconds, this one ends.

    Raises `DeviceError` where mpi4py or an MPI library is missing.
    """
    return as_one(_wait_until_all_ranks_start(timeout))


def _wait_until_all_ranks_start(timeout: float) -> Any:
    # A process that fails before would let the others wait for ever, in a call that nothing interrupts.
    faulthandler.dump_traceback_later(timeout, exit=True)
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise DeviceError(
            f"ranks talk by mpi4py: `pip install ocannl[mpi]`, or Mesh(..., engine='threads') ({error})"
        ) from None
    finally:
        faulthandler.cancel_dump_traceback_later()


@cache
def as_one(mpi: Any) -> Any:
    """All processes, as MPI's `COMM_WORLD`. An error in one ends all; where several have it, the first
    tells it. Only rank 0 prints.
    """
    processes = mpi.COMM_WORLD
    rank, before = processes.rank, sys.excepthook

    def end_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        time.sleep(TURN * min(rank, MOST_TURNS))
        sys.stderr.write(f"rank {rank} of {processes.size} failed:\n")
        before(kind, error, trace)
        sys.stderr.flush()
        time.sleep(PASSED_ON)
        processes.Abort(1)

    if processes.size > 1:
        sys.excepthook = end_all
    if rank:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
    return processes
