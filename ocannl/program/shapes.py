"""Dimensions and shapes as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, TypeAlias

from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, Shape, closed_row
from ocannl.program import graph
from ocannl.program.arithmetic import Arithmetic
from ocannl.program.checks import integer
from ocannl.program.misuse import ArgumentError

if TYPE_CHECKING:
    from ocannl.program.tensor import Tensor


class Dim(Arithmetic):
    """A dimension by name: bound by an einsum (`d=d`), then a size for parameters and a number in
    expressions.

    `int(d)` is its size, once that is known. A dimension with a `basis` (a unit) matches only its like.
    """

    def __init__(self, name: str, size: int | None = None, *, basis: str | None = None) -> None:
        if basis is not None and size is None:
            raise ArgumentError(f"dimension {name!r} has a basis, so it needs a size")
        self.name = name
        known = None if size is None else KnownDim(integer(size, f"the size of `{name}`"), basis)
        self.term: DimTerm = known or graph.fresh_dim()

    @classmethod
    def of(cls, var: DimVar) -> Dim:
        """A handle on a dimension that inference made."""
        dim = cls.__new__(cls)
        dim.name, dim.term = str(var), var
        return dim

    @property
    def known(self) -> int | None:
        """The size, or None while it is not known."""
        term = graph.solver().dim(self.term)
        return term.size if isinstance(term, KnownDim) else None

    def __int__(self) -> int:
        size = self.known
        if size is None:
            raise ArgumentError(f"the size of dimension {self.name} is not known yet")
        return size

    __index__ = __int__

    def __repr__(self) -> str:
        size = self.known
        return self.name if size is None else f"{self.name}={size}"

    def tensor(self) -> Tensor:
        """The size as a number in an expression."""
        from ocannl.program.tensor import size_of

        return size_of(self)


Axis: TypeAlias = int | Dim | EllipsisType
RowSizes: TypeAlias = int | Dim | Sequence[int | Dim]


def row_of(sizes: RowSizes | None) -> Row:
    """The row that a user gave, closed; a row that nobody gave is one fresh variable."""
    if sizes is None:
        return graph.fresh_row()
    axes = list(sizes) if isinstance(sizes, list | tuple) else [sizes]
    return closed_row(*map(_dim_term, axes))


def _dim_term(axis: object) -> DimTerm:
    if isinstance(axis, Dim):
        return axis.term
    return KnownDim(integer(axis, "a size in a row (an int, an oc.Dim, or a list of them)"))


class ShapeView:
    """What is known of a shape now. Looking closes nothing.

    `str` gives `10|2->16`, with unknown rows as `..b3..` and unknown dimensions as `?d7`. `batch`, `input`
    and `output` are tuples of sizes, with a `Dim` for an unknown size and `...` for unknown axes.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def batch(self) -> tuple[Axis, ...]:
        return _axes(self._shape.batch)

    @property
    def input(self) -> tuple[Axis, ...]:
        return _axes(self._shape.input)

    @property
    def output(self) -> tuple[Axis, ...]:
        return _axes(self._shape.output)

    @property
    def is_final(self) -> bool:
        return self._shape.is_final

    @property
    def array(self) -> tuple[int, ...]:
        """The shape of the array that holds the tensor: batch, output, input axes; only for a final shape."""
        if not self._shape.is_final:
            raise ArgumentError(f"the shape {self} is not final: ask for oc.infer first")
        return self._shape.memory_sizes

    def __str__(self) -> str:
        return str(self._shape)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ShapeView):
            return self._shape == other._shape
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


def _axes(row: Row) -> tuple[Axis, ...]:
    def axis(term: DimTerm) -> Axis:
        return term.size if isinstance(term, KnownDim) else Dim.of(term)

    middle: tuple[Axis, ...] = () if row.var is None else (...,)
    return (*map(axis, row.leading), *middle, *map(axis, row.trailing))
