"""Triangles of matrices, which are the last two axes in the order of memory."""

from __future__ import annotations

from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import integer
from ocannl.program.expressions import apply, positions
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.memory.memory_axes import MemoryAxes
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.final_types import element_now


@remembered
def tril(t: TensorLike, diagonal: int = 0) -> Tensor:
    """The lower triangles of the matrices in the last two axes, up to a diagonal, and 0 above it: 0 is the
    main diagonal, 1 the one above. Raises `ShapeError` where the axes are not known.
    """
    return _triangle(t, "le", integer(diagonal, "the number of a diagonal", least=None))


@remembered
def triu(t: TensorLike, diagonal: int = 0) -> Tensor:
    """The upper triangles, from a diagonal on, and 0 below it; as `oc.tril`."""
    return _triangle(t, "ge", integer(diagonal, "the number of a diagonal", least=None))


def _triangle(t: TensorLike, kept: str, diagonal: int) -> Tensor:
    value = as_tensor(t).ir_value
    axes = MemoryAxes(value)
    places = [axes.place(-2), axes.place(-1)]
    rows, columns = (positions(Dim(axes.known_size(place))) for place in places)
    slot = axes.slot("x")
    row, column = (slot.at(place) for place in places)
    last = App("add", (Arg(0), Const(diagonal)))
    inside = App("le", (Arg(1), last) if kept == "le" else (last, Arg(1)))
    is_truth = element_now(value) == BOOL
    term = App("and", (inside, Arg(2))) if is_truth else App("where", (inside, Arg(2), Const(0)))
    made = apply(term, [rows, columns, value], logic=f"{row},; {column},; {slot} => {slot}")
    return Tensor(keep_all_axes(made, value))
