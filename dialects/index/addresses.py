"""Accesses as positions in row-major memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """A linear index expression over variables: a position in a node, in elements."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def stride(self, variable: str | None) -> int:
        for name, coefficient in self.terms:
            if name == variable:
                return coefficient
        return 0

    def after(self, first: int) -> Address:
        """The same position relative to element `first`."""
        return Address(self.terms, self.constant - first) if first else self

    def merge(self, groups: Iterable[tuple[str, ...]]) -> Address:
        """The same position over loops that merge variables, each called by their names with `*` between.

        The variables of a group have to form one loop: see `moves_as_one`.
        """
        terms = dict(self.terms)
        for names in groups:
            strides = [terms.pop(name, 0) for name in names]
            terms["*".join(names)] = strides[-1]
        return Address(tuple((n, c) for n, c in terms.items() if c), self.constant)

    def moves_as_one(self, names: tuple[str, ...], sizes: Mapping[str, int]) -> bool:
        """Whether a loop over all points of the variables, the first outermost, takes equal steps."""
        return all(
            self.stride(outer) == self.stride(inner) * sizes[inner] for outer, inner in pairwise(names)
        )


def flatten(node: SSAValue, indices: tuple[Linear, ...]) -> Address:
    """The position of an element in a row-major node.

    Raises `VerifyException` for another number of indices than of axes.
    """
    shape = memref_shape(node)
    if len(indices) != len(shape):
        raise VerifyException(f"{len(indices)} indices for {len(shape)} axes")
    terms: dict[str, int] = {}
    constant = 0
    for index, stride in zip(indices, strides(shape), strict=True):
        constant += index.constant * stride
        for name, coefficient in index.terms:
            terms[name] = terms.get(name, 0) + coefficient * stride
    return Address(tuple([(n, c) for n, c in terms.items() if c]), constant)


@lru_cache(maxsize=2**12)
def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How far apart neighbours along each axis of a row-major array are: not at all where it is empty."""
    return tuple(math.prod(shape[axis + 1 :]) if 0 not in shape else 0 for axis in range(len(shape)))
