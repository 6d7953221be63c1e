"""The seed of what gets values without being asked to."""

from __future__ import annotations

import itertools

from ocannl.program.arguments.checks import integer


class Seed:
    """The present seed, and the number of the next call of random numbers in eager mode."""

    now = 1
    calls = itertools.count()


def seed(value: int) -> None:
    """Sets the seed of parameters that functions and eager mode initialize, and of eager mode's random
    numbers, which begin anew. At first it is 1.
    """
    Seed.now = integer(value, "a seed", least=None)
    Seed.calls = itertools.count()


def default_seed() -> int:
    """The seed that was set last."""
    return Seed.now
