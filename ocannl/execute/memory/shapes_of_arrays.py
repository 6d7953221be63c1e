"""The shapes that memory of an open shape gets from arrays that become its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from ocannl.dialects.shapes.shape import Dim, Row, RowKind, Shape, closed_row
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.terms import RowEq
from ocannl.program import graph
from ocannl.program.memory.memory_axes import MEMORY_ORDER
from ocannl.program.types.dtypes import ELEMENTS
from ocannl.program.values import Value
from ocannl.runtime.locks import shared

Wanted: TypeAlias = Mapping[str, tuple[Value, Shape, np.dtype[Any] | None]]
"""Memory with the final shape that it is to get, and the dtype if that is not left open, by name."""


class _Contradicted(Exception):
    """Leaves an attempt, so that it is undone."""


def close_shapes(wanted: Wanted) -> list[str]:
    """Gives memory its final shapes, and the dtypes that there are, where they are open.

    What else is known may contradict some of them: then nothing changes, and these are their names.
    """
    wrong: list[str] = []
    with shared:
        solver = graph.solver()
        # Of all before one is closed: that closes rows of others, too.
        equations = {name: _equations(value, shape) for name, (value, shape, _) in wanted.items()}
        try:
            with solver.attempt():
                for name, equal in equations.items():
                    try:
                        solver.add(*equal)
                    except ShapeInferenceError:
                        wrong.append(name)
                if wrong:
                    raise _Contradicted
        except _Contradicted:
            return wrong
        for value, _, dtype in wanted.values():
            if dtype is not None and tensor_type(value).element_or_none is None:
                value.refine(TensorType(tensor_type(value).shape, ELEMENTS[dtype]))
    return wrong


def _equations(value: Value, shape: Shape) -> list[RowEq]:
    rows = zip(graph.known_shape(value), shape, strict=True)
    return [RowEq(known, row) for known, row in rows if not known.is_final]


def shape_of_sizes(known: Shape, sizes: Sequence[int]) -> Shape | None:
    """The shape of an array whose rows nobody notes, for memory of which so much is known; None where it does
    not fit. More axes than are known belong to the row that is open. Of an open output and input row, the
    input row has the last one, if there are several: as those of a parameter's initial array.
    """
    counts: dict[RowKind, int] = {kind: len(known.row(kind).axes) for kind in MEMORY_ORDER}
    left = len(sizes) - sum(counts.values())
    open_rows: list[RowKind] = [kind for kind in MEMORY_ORDER if not known.row(kind).is_closed]
    if left < 0 or (left and not open_rows):
        return None
    if open_rows[-2:] == ["output", "input"]:
        own = min(left - 1, 1) if left else 0
        counts["output"] += left - own
        counts["input"] += own
    elif left:
        counts[open_rows[-1]] += left
    axes = iter(sizes)
    rows = {kind: closed_row(*islice(axes, counts[kind])) for kind in MEMORY_ORDER}
    found = Shape(rows["batch"], rows["input"], rows["output"])
    return found if all(map(row_fits, known, found)) else None


def row_fits(known: Row, row: Row) -> bool:
    """Whether a row that is partly known may be a final one."""
    sizes, axes = row.axes, known.axes
    if len(sizes) < len(axes) or (known.is_closed and len(sizes) != len(axes)):
        return False
    pairs = [*zip(known.leading, sizes, strict=False)]
    pairs += zip(reversed(known.trailing), reversed(sizes), strict=False)
    return all(not isinstance(axis, Dim) or axis == size for axis, size in pairs)
