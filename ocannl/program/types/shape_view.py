"""Shapes as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Generic, TypeVar

from ocannl.dialects.ir.errors import ShapeError, location_text
from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row
from ocannl.program import graph
from ocannl.program.location import here
from ocannl.program.types.final_types import demanded_shape
from ocannl.program.values import Value

DimT = TypeVar("DimT")


class ShapeView(Generic[DimT]):
    """A shape as far as it is known now. Reading it decides nothing.

    `str` gives `10|2->16`, with `...` for axes that are not known and `?` for a size that is not. `batch`,
    `input` and `output` are tuples of sizes, with a `Dim` for an unknown size and `...` for unknown axes.
    `tuple` gives the sizes in the order of memory, batch, output, input axes, as they would be inferred now.
    """

    __slots__ = ("_dim", "_shape", "_value")

    def __init__(self, value: Value, dim: Callable[[DimVar], DimT]) -> None:
        self._value = value
        self._shape = graph.known_shape(value)
        self._dim = dim

    @property
    def value(self) -> Value:
        """Whose shape it is."""
        return self._value

    @property
    def batch(self) -> tuple[int | DimT | EllipsisType, ...]:
        """The sizes of the batch axes."""
        return self._axes(self._shape.batch)

    @property
    def input(self) -> tuple[int | DimT | EllipsisType, ...]:
        """The sizes of the input axes."""
        return self._axes(self._shape.input)

    @property
    def output(self) -> tuple[int | DimT | EllipsisType, ...]:
        """The sizes of the output axes."""
        return self._axes(self._shape.output)

    @property
    def is_final(self) -> bool:
        """Whether all sizes are known."""
        return self._shape.is_final

    @property
    def array(self) -> tuple[int, ...]:
        """The shape of the tensor's array: batch, output, input axes, as they would be inferred now. Raises
        `ShapeError` where nothing determines it.
        """
        try:
            return demanded_shape(self._value).memory_sizes
        except ShapeError as error:
            where = location_text(self._value.op)
            made = "" if where is None else f" of the tensor made at {where}"
            raise ShapeError(
                here(f"the shape {self}{made} is not final; oc.infer(t) decides it\n{error}")
            ) from None

    def _axes(self, row: Row) -> tuple[int | DimT | EllipsisType, ...]:
        def axis(term: DimTerm) -> int | DimT:
            return term.size if isinstance(term, KnownDim) else self._dim(term)

        middle: tuple[EllipsisType, ...] = () if row.var is None else (...,)
        return (*map(axis, row.leading), *middle, *map(axis, row.trailing))

    def __iter__(self) -> Iterator[int]:
        return iter(self.array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, axis: int) -> int:
        return self.array[axis]

    def __str__(self) -> str:
        return str(self._shape)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ShapeView):
            return self._shape == other._shape
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))
