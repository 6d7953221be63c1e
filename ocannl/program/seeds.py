"""The seed of what gets values without being asked to."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count

from ocannl.program.arguments.checks import integer


class Seed:
    """A seed, and the numbers of the calls of random numbers in eager mode since it was set."""

    last: Seed
    """The one that was set last, wherever that was."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.calls = count()

    @staticmethod
    def now() -> Seed:
        """That of this thread or task of asyncio, if one was set there, else the last one."""
        return _own.get() or Seed.last


Seed.last = Seed(1)
_own: ContextVar[Seed | None] = ContextVar("seed", default=None)


def seed(value: int) -> None:
    """Sets the seed of parameters that functions and eager mode initialize, and of eager mode's random
    numbers, which begin anew. At first it is 1.

    It holds for this thread or task of asyncio, whatever others set, and where none was set.
    """
    Seed.last = Seed(integer(value, "a seed", least=None))
    _own.set(Seed.last)


def default_seed() -> int:
    """The present seed."""
    return Seed.now().value
