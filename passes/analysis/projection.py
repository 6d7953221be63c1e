"""Iteration spaces and index maps under construction, and those of the logics without a spec.

An axis of size 1 is indexed at 0 and takes no iteration variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import field
from functools import lru_cache

from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import Row, Shape

ZERO = Linear()


class MisfitError(Exception):
    """Shapes written in a program's text that do not fit the logic of an operation. Inference never makes
    such shapes.
    """


@dataclass
class Projection:
    """The space and maps of one operation under construction."""

    taken: Set[str]
    space: dict[str, int] = field(default_factory=dict[str, int])

    def variable(self, size: int, hint: str) -> Linear:
        """A fresh iteration variable, named in ASCII after `hint`; 0 for an axis of size 1."""
        if size == 1:
            return ZERO
        plain = "".join(c if c.isascii() else "_" for c in hint)
        name, count = plain, 0
        while name in self.space or name in self.taken:
            count += 1
            name = f"{plain}{count}"
        self.space[name] = size
        return Linear.var(name)

    def row(self, row: Row, hint: str) -> list[Linear]:
        return [self.variable(size, hint) for size in row.sizes]

    def result(self, shape: Shape) -> RowMaps:
        """One variable an axis, in the order of memory."""
        batch, output = self.row(shape.batch, "b"), self.row(shape.output, "o")
        return RowMaps(batch, self.row(shape.input, "i"), output)


@dataclass
class RowMaps:
    """The index expressions of a tensor's axes, by row."""

    batch: list[Linear]
    input: list[Linear]
    output: list[Linear]

    @property
    def memory(self) -> tuple[Linear, ...]:
        return (*self.batch, *self.output, *self.input)


def broadcast(indices: Sequence[Linear], row: Row, operand: Row) -> list[Linear]:
    """The indices of an operand's row that broadcasts to `row`, which is indexed at `indices`.

    Leading axes align left, trailing axes right; an axis of size 1 is indexed at 0. Raises `MisfitError`.
    """
    ahead, behind, sizes = len(operand.leading), len(operand.trailing), row.sizes
    if ahead + behind > len(sizes):
        raise MisfitError
    partners = [*range(ahead), *range(len(sizes) - behind, len(sizes))]
    if any(size not in (1, sizes[partner]) for partner, size in zip(partners, operand.sizes, strict=True)):
        raise MisfitError
    return [
        ZERO if size == 1 and sizes[partner] != 1 else indices[partner]
        for partner, size in zip(partners, operand.sizes, strict=True)
    ]


def pointwise(result: RowMaps, shape: Shape, operand: Shape) -> RowMaps:
    return RowMaps(
        broadcast(result.batch, shape.batch, operand.batch),
        broadcast(result.input, shape.input, operand.input),
        broadcast(result.output, shape.output, operand.output),
    )


def transpose(result: RowMaps, shape: Shape, operand: Shape) -> RowMaps:
    return RowMaps(
        broadcast(result.batch, shape.batch, operand.batch),
        broadcast(result.output, shape.output, operand.input),
        broadcast(result.input, shape.input, operand.output),
    )


def compose(
    projection: Projection, result: RowMaps, shape: Shape, left: Shape, right: Shape
) -> tuple[RowMaps, RowMaps]:
    contracted = projection.row(left.input, "k")
    return (
        RowMaps(
            broadcast(result.batch, shape.batch, left.batch),
            contracted,
            broadcast(result.output, shape.output, left.output),
        ),
        RowMaps(
            broadcast(result.batch, shape.batch, right.batch),
            broadcast(result.input, shape.input, right.input),
            broadcast(contracted, left.input, right.output),
        ),
    )


@dataclass(frozen=True, slots=True)
class PlainMaps:
    """The index maps of an operation whose logic is not a spec, and its space."""

    result: Map
    args: tuple[Map, ...]
    space: Space


@lru_cache(maxsize=2**12)
def plain_maps(logic: str, shape: Shape, args: tuple[Shape, ...], taken: frozenset[str]) -> PlainMaps:
    """The maps of an operation with a logic of these shapes. Raises `MisfitError`."""
    projection = Projection(taken)
    result = projection.result(shape)
    match logic, args:
        case ".", _:
            maps = [pointwise(result, shape, arg) for arg in args]
        case "T", (arg,):
            maps = [transpose(result, shape, arg)]
        case "@", (left, right):
            maps = compose(projection, result, shape, left, right)
        case _:
            raise MisfitError
    memory = tuple(indices.memory for indices in maps)
    return PlainMaps(result.memory, memory, tuple(projection.space.items()))


def whole(
    sizes: Sequence[int], taken: Iterable[str]
) -> tuple[tuple[Linear, ...], tuple[tuple[str, int], ...]]:
    """The map and space of an iteration over all cells of an array, with variables that are not `taken`."""
    projection = Projection(set(taken))
    maps = tuple(projection.variable(size, "i") for size in sizes)
    return maps, tuple(projection.space.items())
