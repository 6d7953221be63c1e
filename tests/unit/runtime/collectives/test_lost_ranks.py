"""Ranks that do not come: who is lost, and what the others say. Processes of MPI are threads here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep

import numpy as np
import pytest
from support.fake_mpi import FakeWorld, Post

from ocannl.dialects.ir.errors import DeviceError
from ocannl.program.location import user_line
from ocannl.runtime.collectives.engine import RankLost, Repeated
from ocannl.runtime.collectives.lost_ranks import Waiting, absence_text, lost_ranks
from ocannl.runtime.collectives.mpi import MpiEngine
from ocannl.runtime.collectives.mpi_wait import TAG


@pytest.mark.parametrize(
    ("rank", "peers", "lost"),
    [
        (0, {0: [1]}, [1]),
        (2, {0: [1], 2: [3], 3: [1]}, [1]),
        (2, {0: [1, 2], 2: [3, 4], 3: [1]}, [1, 4]),
        (0, {0: [1], 1: [0]}, []),
        (0, {0: [1], 1: [2], 2: [0]}, []),
    ],
)
def test_who_waits_for_a_lost_rank_is_there(
    rank: int, peers: Mapping[int, Sequence[int]], lost: Sequence[int]
) -> None:
    waiting = {own: Waiting(tuple(others), f"{own}.py:1") for own, others in peers.items()}
    assert lost_ranks(rank, waiting) == lost
    others = [f"rank {peer}" for peer in lost]
    places = [f"rank {peer} at {peer}.py:1" for peer in peers[rank]]
    told = absence_text(rank, waiting, 3.0)
    assert told.startswith(", ".join(others) if lost else "ranks wait at different collectives: ")
    assert told.endswith("did not come to this collective within 3 s" if lost else ", ".join(places))


class Ranks:
    """Ranks whose processes are those of this test."""

    def __init__(self, size: int, timeout: float) -> None:
        post = Post(size)
        self.pool = ThreadPoolExecutor(size)
        self.engines = [MpiEngine(FakeWorld(rank, post), timeout, user_line) for rank in range(size)]

    def exchange(self, rank: int, group: Sequence[int], line: str, size: int = 8) -> list[int]:
        """The bytes that a rank gets that gives its number, as a byte."""
        found, own = np.zeros(size * len(group), np.uint8), np.full(size, rank, np.uint8)
        self.engines[rank].exchange(rank, group, "all_gather", found, own, line)
        return found[::size].tolist()

    def errors(self, *calls: Callable[[], object]) -> list[str]:
        """The messages of what runs at the same time, until it gives up."""
        futures = [self.pool.submit(call) for call in calls]
        found = [future.exception() for future in futures]
        assert all(isinstance(error, RankLost) for error in found), found
        return [str(error) for error in found]


def test_a_rank_that_waits_for_a_lost_one_is_not_lost():
    """In a grid of two times two, rank 2 gives up first."""
    ranks, waits = Ranks(4, 2.0), Event()

    def second() -> None:
        waits.set()
        ranks.exchange(2, (2, 3), "a.py:1")

    def third() -> None:
        waits.wait()
        ranks.exchange(3, (1, 3), "a.py:2")

    told = ranks.errors(second, third)
    assert told == [f"a.py:{k}: rank 1 did not come to this collective within 2 s" for k in (1, 2)]


@pytest.mark.exhaustive
def test_ranks_at_different_collectives_say_where_they_are():
    ranks = Ranks(2, 2.0)
    first, second = (lambda k=k: ranks.exchange(k, (0, 1), f"{k}.py:7", 8 + k) for k in range(2))
    told = ranks.errors(first, second)
    assert told[0] == "0.py:7: ranks wait at different collectives: rank 1 at 1.py:7"


def test_a_rank_that_comes_when_it_is_asked_is_not_lost():
    """An answer that others get late does not count in their next question."""
    ranks = Ranks(3, 2.0)
    for late in (0, 1):

        def come(rank: int, late: int = late) -> list[int]:
            while rank == late and not ranks.engines[late].world.iprobe(tag=TAG):
                sleep(0.01)
            return ranks.exchange(rank, (0, 1, 2), f"a.py:{late}")

        assert [*ranks.pool.map(come, range(3))] == [[0, 1, 2]] * 3


def run_once(repeated: Repeated) -> None:
    repeated.start()
    repeated.finish()


def test_an_exchange_that_is_repeated_sends_what_is_there_each_time():
    ranks = Ranks(2, 20.0)
    arrays = [(np.zeros(4, np.uint8), np.zeros(2, np.uint8)) for _ in range(2)]
    ready = [ranks.engines[k].repeated(k, (0, 1), "all_gather", *arrays[k], "a.py:1") for k in range(2)]
    for step in range(3):
        for k, (_, source) in enumerate(arrays):
            source[...] = (step, k)
        list(ranks.pool.map(run_once, ready))
        assert [found.tolist() for found, _ in arrays] == [[step, 0, step, 1]] * 2


def test_several_exchanges_are_on_their_way():
    """Of one size, started in one order and waited for in another one."""
    ranks = Ranks(2, 20.0)

    def run(rank: int) -> list[list[int]]:
        given = [(np.zeros(4, np.uint8), np.full(2, 10 * rank + k, np.uint8)) for k in range(3)]
        engine = ranks.engines[rank]
        ready = [
            engine.repeated(rank, (0, 1), "all_gather", *own, f"a.py:{k}") for k, own in enumerate(given)
        ]
        for each in ready:
            each.start()
        for each in reversed(ready):
            each.finish()
        return [target.tolist() for target, _ in given]

    assert [*ranks.pool.map(run, range(2))] == [[[k, k, 10 + k, 10 + k] for k in range(3)]] * 2


def test_a_rank_that_is_lost_after_some_exchanges_has_a_name():
    ranks = Ranks(2, 1.0)
    arrays = [(np.zeros(2, np.uint8), np.ones(2, np.uint8)) for _ in range(2)]
    ready = [ranks.engines[k].repeated(k, (0, 1), "all_to_all", *arrays[k], "a.py:1") for k in range(2)]
    list(ranks.pool.map(run_once, ready))
    told = ranks.errors(lambda: run_once(ready[0]))
    assert told == ["a.py:1: rank 1 did not come to this collective within 1 s"]


def test_what_differs_among_ranks_is_told_with_the_users_line() -> None:
    ranks = Ranks(3, 5.0)

    def check(rank: int) -> None:
        ranks.engines[rank].check_same("the value of `x`", bytes([rank == 1]))

    for told in [ranks.pool.submit(check, rank) for rank in range(3)]:
        with pytest.raises(DeviceError, match=r"_ranks\.py:\d+: the value of `x` is another one on rank 1"):
            told.result()
