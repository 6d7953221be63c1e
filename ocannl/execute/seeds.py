"""The seed of parameters that get their values without being asked to."""

from __future__ import annotations

from ocannl.program.checks import integer

_seed = [1]


def seed(value: int) -> None:
    """Sets the seed of parameters that functions and eager mode initialize, which is 1 at first."""
    _seed[0] = integer(value, "a seed", least=None)


def default_seed() -> int:
    """The seed that was set last."""
    return _seed[0]
