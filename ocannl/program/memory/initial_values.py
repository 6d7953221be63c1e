"""Initial values of parameters that are arrays or expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.shapes.shape import ROW_KINDS, DimTerm, RowKind, Shape
from ocannl.dialects.shapes.shape import Dim as KnownDim
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.passes.texpr.infer_shapes.terms import DimEq
from ocannl.program import graph
from ocannl.program.location import here
from ocannl.program.tensor import Tensor
from ocannl.program.types.final_types import close_shape, determined_shape
from ocannl.program.types.shapes import RowSizes, row_of
from ocannl.program.values import Value
from ocannl.runtime.locks import shared

Rows: TypeAlias = Mapping[RowKind, RowSizes | None]
"""The rows of a parameter as they were given; None for those that were not."""
MEMORY_ORDER: tuple[RowKind, ...] = ("batch", "output", "input")


@dataclass(frozen=True)
class ExpressionSample:
    """The value of an expression as an initial value, in the context that is the default one then."""

    tensor: Tensor

    def shape_with(self, rows: Rows) -> Shape:
        """The shape of a parameter: rows that are not given are those of the expression, if it has axes
        there, and all are if none is given. Raises `ShapeError` where they are not known then.
        """
        value = self.tensor.ir_value
        if rows["output"] is None and rows["input"] is None and rows["batch"] in (None, ()):
            return close_shape(value)
        found = Shape(*(row_of(rows[kind]) for kind in ROW_KINDS))
        with suppress(ShapeError):
            own = determined_shape(value)
            missing = [kind for kind in ROW_KINDS if rows[kind] is None and own.row(kind).axes]
            found = Shape(*((own if kind in missing else found).row(kind) for kind in ROW_KINDS))
        return found

    def check(self, param: Value) -> None:
        """Makes the expression one that broadcasts to a parameter. Raises `ShapeError` where it cannot."""
        graph.add_statement(texpr.AssignOp(param, self.tensor.ir_value, logic="."))

    def of_shape(self, shape: Shape) -> Tensor:
        """The expression, broadcast to a shape by its rows."""
        op = texpr.ApplyOp(Arg(0), [self.tensor.ir_value], TensorType.of(shape), logic=".")
        return Tensor(graph.add(op))

    def __call__(self, key: NDArray[np.uint32], shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.asarray(self.of_shape(shape).numpy()).astype(dtype)


@dataclass(frozen=True)
class ArraySample:
    """An array as an initial value."""

    array: NDArray[Any]

    def __call__(self, key: NDArray[np.uint32], shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self.array.astype(dtype).reshape(shape.memory_sizes)


def rows_of_array(name: str, array: NDArray[Any], rows: Rows) -> dict[RowKind, RowSizes | None]:
    """The rows of a parameter, with those that are not given taken from the shape of its initial array, which
    tells the sizes of dimensions that are not known yet. For rows that are all given, it may be flat.

    Raises `ShapeError` where the array has other axes than the rows that are given.
    """
    given: dict[RowKind, Sequence[DimTerm]] = {
        kind: row_of(row).axes for kind, row in rows.items() if row is not None
    }
    if array.ndim == 1 and len(given) == len(rows) and _is_number_of_elements(array.size, given):
        return dict(rows)
    counts, sizes = _numbers_of_axes(array.ndim, given), iter(array.shape)
    own = {kind: tuple(islice(sizes, counts[kind])) for kind in MEMORY_ORDER}
    fits = sum(counts.values()) == array.ndim
    if not (fits and all(all(map(_can_be, axes, own[kind])) for kind, axes in given.items())):
        wanted = " and ".join(f"{kind}={_text(given[kind])}" for kind in MEMORY_ORDER if given.get(kind))
        raise ShapeError(
            here(
                f"the initial array of `{name}` of shape {array.shape} does not fit {wanted or 'no axes'}; "
                f"its axes are those of the {', '.join(MEMORY_ORDER)} rows, in this order"
            )
        )
    return {kind: rows[kind] if kind in given else own[kind] for kind in MEMORY_ORDER}


def _is_number_of_elements(count: int, rows: Mapping[RowKind, Sequence[DimTerm]]) -> bool:
    known = [graph.known_dim(axis) for axes in rows.values() for axis in axes]
    sizes = [axis.size for axis in known if isinstance(axis, KnownDim)]
    return len(sizes) == len(known) and math.prod(sizes) == count


def _numbers_of_axes(rank: int, given: Mapping[RowKind, Sequence[DimTerm]]) -> dict[RowKind, int]:
    """How many axes of an array each row has. A row that is not given has those that are left; of the output
    and input rows, the latter has the last one, if there are several.
    """
    counts: dict[RowKind, int] = {kind: len(given.get(kind, ())) for kind in MEMORY_ORDER}
    missing: list[RowKind] = [kind for kind in MEMORY_ORDER if kind not in given]
    left = max(rank - sum(counts.values()), 0)
    if missing[-2:] == ["output", "input"]:
        counts["output"], counts["input"] = (left - 1, 1) if left > 1 else (left, 0)
    elif missing:
        counts[missing[-1]] = left
    return counts


def _can_be(axis: DimTerm, size: int) -> bool:
    """Whether an axis has a size; gives it that, if it has none yet."""
    known = graph.known_dim(axis)
    if isinstance(known, KnownDim):
        return known.size == size
    with shared:
        graph.solver().add(DimEq(axis, KnownDim(size)))
    return True


def _text(axes: Sequence[DimTerm]) -> str:
    known = [graph.known_dim(axis) for axis in axes]
    return str([axis.size if isinstance(axis, KnownDim) else "?" for axis in known]).replace("'", "")
