"""An error of several ranks is told once."""

import sys
import time

import pytest

from ocannl.runtime.collectives import mpi_world


class Processes:
    """Processes of MPI that note what is done in order."""

    def __init__(self, rank: int, done: list[object]) -> None:
        self.rank, self.size, self.done = rank, 8, done

    def Abort(self, code: int) -> None:
        self.done.append(code)


class Mpi:
    """The module of mpi4py."""

    def __init__(self, processes: Processes) -> None:
        self.COMM_WORLD = processes


def failing(rank: int, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Lets a rank fail: the seconds that it waits, that it tells of the error, and the code that ends all."""
    done: list[object] = []
    for name in ("stdout", "excepthook"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr(sys, "excepthook", lambda *_: done.append("error"))
    monkeypatch.setattr(time, "sleep", done.append)
    mpi_world.as_one(Mpi(Processes(rank, done)))
    sys.excepthook(ValueError, ValueError("no"), None)
    return done


def test_each_rank_lets_those_before_it_tell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 ends all while the others wait; none waits for long."""
    waits: list[object] = []
    for rank in (0, 1, 2, 7, 4000):
        with monkeypatch.context() as patched:
            wait, *others = failing(rank, patched)
            waits.append(wait)
        assert others == ["error", mpi_world.PASSED_ON, 1]
        assert f"rank {rank} of 8 failed" in capsys.readouterr().err
    assert waits == [0, 0.5, 1.0, 2.0, 2.0]
