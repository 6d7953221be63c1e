"""Random functions with loops that end by a condition and branches, some inside of others, as programs and in
JAX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, TypeAlias

from numpy.random import Generator

import ocannl as oc

Vector: TypeAlias = Any
Function: TypeAlias = Callable[["Language", Sequence[Vector]], Vector]
"""A vector of some vectors of one size, in either language."""


class Language(Protocol):
    """The functions that a program is written with: ours, or those of JAX."""

    @property
    def ops(self) -> Any:
        """Those on single numbers: `sin`, `cos`, `tanh`, `maximum` and `where`."""
        ...

    def total(self, x: Vector) -> Any: ...

    def loop(
        self, test: Callable[[Vector], Any], body: Callable[[Vector], Vector], begin: Vector, most: int
    ) -> Vector: ...

    def branch(
        self, flag: Any, f: Callable[..., Vector], g: Callable[..., Vector], *xs: Vector
    ) -> Vector: ...


class Ours:
    """Tensors, whose loops and branches run when the program runs."""

    ops: Any = oc

    def total(self, x: Vector) -> oc.Tensor:
        return oc.sum(x)

    def loop(self, test: Any, body: Any, begin: Vector, most: int) -> Vector:
        return oc.while_loop(test, body, begin, most=most)

    def branch(self, flag: Any, f: Any, g: Any, *xs: Vector) -> Vector:
        return oc.cond(flag, f, g, *xs)


class Jax:
    """Arrays of JAX, of whose loops with a condition no reverse mode goes through: these are scans."""

    def __init__(self) -> None:
        self.lax, self.ops = importlib.import_module("jax.lax"), importlib.import_module("jax.numpy")

    def total(self, x: Vector) -> Any:
        return self.ops.sum(x)

    def loop(self, test: Any, body: Any, begin: Vector, most: int) -> Vector:
        def step(state: Any, _: None) -> tuple[Any, None]:
            return self.lax.cond(test(state), body, lambda state: state, state), None

        return self.lax.scan(step, begin, None, length=most)[0]

    def branch(self, flag: Any, f: Any, g: Any, *xs: Vector) -> Vector:
        return self.lax.cond(flag, f, g, *xs)


def random_function(chance: Generator, depth: int) -> Function:
    """A function with loops and branches in each other, up to some depth."""
    kinds = (_looped, _chosen, _pointwise, _pointwise) if depth else (_operand,)
    return kinds[chance.integers(len(kinds))](chance, depth - 1)


def _operand(chance: Generator, depth: int) -> Function:
    number, factor = int(chance.integers(100)), float(chance.uniform(0.5, 1.5))
    return lambda _, given: factor * given[number % len(given)]


def _pointwise(chance: Generator, depth: int) -> Function:
    one, other = random_function(chance, depth), random_function(chance, depth)
    edge = float(chance.normal())
    forms: list[Callable[[Any, Vector, Vector], Vector]] = [
        lambda m, x, y: m.tanh(x) * y,
        lambda m, x, y: m.sin(x + y),
        lambda m, x, y: m.cos(x) - 0.5 * y,
        lambda m, x, y: m.maximum(x, y),
        lambda m, x, y: m.where(x > edge, m.sin(y), x),
        lambda m, x, y: x / (2 + m.cos(y)),
    ]
    form = forms[chance.integers(len(forms))]
    return lambda language, given: form(language.ops, one(language, given), other(language, given))


def _looped(chance: Generator, depth: int) -> Function:
    """A loop over one or two states, which may end before it begins."""
    begins = [random_function(chance, depth) for _ in range(chance.integers(1, 3))]
    bodies = [random_function(chance, depth) for _ in begins]
    most, edge = int(chance.integers(0, 5)), float(chance.uniform(0.5, 8))

    def looped(language: Language, given: Sequence[Vector]) -> Vector:
        def test(state: Any) -> Any:
            return language.total(state[0] * state[0]) < edge

        def body(state: Any) -> Any:
            new = [made(language, [*state, *given]) for made in bodies]
            return tuple(1.2 * old + 0.4 * one for old, one in zip(state, new, strict=True))

        begin = tuple(made(language, given) for made in begins)
        return reduce(lambda x, y: x + y, language.loop(test, body, begin, most))

    return looped


def _chosen(chance: Generator, depth: int) -> Function:
    """A branch by the sum of a vector."""
    decisive, yes, no = (random_function(chance, depth) for _ in range(3))
    edge = float(chance.normal())

    def chosen(language: Language, given: Sequence[Vector]) -> Vector:
        flag = language.total(decisive(language, given)) > edge
        return language.branch(flag, lambda *xs: yes(language, xs), lambda *xs: no(language, xs), *given)

    return chosen
