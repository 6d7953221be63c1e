"""The seed of what gets values without being asked to, in threads and tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

import ocannl as oc
from ocannl.program.seeds import default_seed


@pytest.fixture(autouse=True)
def one_again() -> Generator[None]:
    yield
    oc.seed(1)


def test_tasks_have_seeds_and_draws_of_their_own():
    async def draw(seed: int) -> list[float]:
        with oc.eager():
            oc.seed(seed)
            found = list[float]()
            for _ in range(2):
                await asyncio.sleep(0)
                found.append(oc.uniform(0, output=1).item())
            return found

    async def both() -> list[list[float]]:
        return [*await asyncio.gather(draw(3), draw(4))]

    assert asyncio.run(both()) == [asyncio.run(draw(3)), asyncio.run(draw(4))]


def test_a_thread_without_a_seed_has_the_last_one():
    def seeded(value: int) -> int:
        oc.seed(value)
        return default_seed()

    oc.seed(3)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert one.submit(default_seed).result() == 3
        assert other.submit(seeded, 4).result() == 4
        assert (one.submit(default_seed).result(), other.submit(default_seed).result()) == (4, 4)
    assert default_seed() == 3
