"""The constraint system of placements on one mesh axis: values, and the ways to divide each step.

A value is split along one of its axes, whole on every rank, or partial: each rank has a term of its sum. A
step is an operation, which is divided in one of some ways; each needs its operands and gives its results in
some splits. Where a value is split otherwise than a step needs or gives it, it is moved, at a cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Literal, TypeAlias

from ocannl.dialects.records import dataclass

Split: TypeAlias = int
"""The number of an axis in memory order, or one of the following."""
WHOLE: Split = -1
PARTIAL: Split = -2


@dataclass(frozen=True, slots=True)
class Way:
    """A way to divide a step: what it needs of each operand and gives of each result, and the points that one
    rank computes.

    `along` names what is divided: a variable, `sum` where operands are terms of sums, nothing where each rank
    computes all.
    """

    along: str
    needs: tuple[Split, ...]
    gives: tuple[Split, ...]
    points: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """An operation over values by their numbers, and its ways; the first one is whole.

    What it has in place cannot be moved: operands and results that are memory.
    """

    operands: tuple[int, ...]
    results: tuple[int, ...]
    ways: tuple[Way, ...]
    in_place: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value: its bytes, the axes that may be split, whether it may be partial, and its split if that is
    given. One that is free has any split for nothing, as numbers and positions have. A weight is a parameter,
    or computed from parameters alone.
    """

    bytes: int
    axes: tuple[int, ...]
    may_be_partial: bool = False
    given: Split | None = None
    free: bool = False
    is_weight: bool = False


@dataclass(frozen=True)
class Problem:
    """Values and steps in program order. In each pair of `followers`, the second has the split of the first
    unless told otherwise.
    """

    ranks: int
    values: Sequence[PlacedValue]
    steps: Sequence[Step]
    followers: Sequence[tuple[int, int]] = field(default=())

    @cached_property
    def uses(self) -> list[list[tuple[int, int]]]:
        """The steps that read each value, with the numbers of the operands."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.values]
        for number, step in enumerate(self.steps):
            for place, value in enumerate(step.operands):
                found[value].append((number, place))
        return found

    @cached_property
    def makers(self) -> list[list[tuple[int, int]]]:
        """The steps that make or write each value, with the numbers of the results."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.values]
        for number, step in enumerate(self.steps):
            for place, value in enumerate(step.results):
                found[value].append((number, place))
        return found


@dataclass(frozen=True, slots=True)
class Fact:
    """Why a value has its split: it is `given`, it `follows` another value, a `step` makes it so, or all
    steps that read it `need` it so. `step` is that step, `via` the value from which this follows.
    """

    kind: Literal["given", "follows", "step", "need", "open"]
    step: int = -1
    via: int = -1


@dataclass(frozen=True)
class Placements:
    """The answer: a split for each value, a way for each step, and what the splits follow from."""

    splits: tuple[Split, ...]
    ways: tuple[Way, ...]
    facts: tuple[Fact, ...]
