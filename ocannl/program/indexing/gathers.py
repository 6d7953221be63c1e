"""Gathers and scatters: axes whose positions are the values of integer tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.ir.errors import SpecError
from ocannl.program.indexing.indexed_axes import SCATTERING, Indexing, one_of
from ocannl.program.location import here
from ocannl.program.tensor import Dim, Tensor, TensorLike, as_tensor, bound_dims
from ocannl.program.values import Value


def gather(
    spec: str,
    x: TensorLike,
    *ids: TensorLike,
    at: str | Sequence[str],
    out_of_range: str = "error",
    **dims: int | Dim,
) -> Tensor:
    """The elements of `x` at the positions `ids`: `oc.gather("v d; b t | => b t | d", table, ids, at="v")`.

    The spec has a slot for `x`, one for each tensor of ids, and the result; `at` names the axis of `x` that
    the ids choose, or the axes, one for each tensor of ids. Axes of `x` that are neither chosen nor in the
    result are summed. `dims` fix or capture dimensions, as in `oc.einsum`.

    An id that is not a position of the axis (negative, too large, not whole) gives 0, and the run raises
    `OcannlError` at its end. With `drop` it gives 0, with `clamp` the nearest position, if it is whole.
    Gradients go to `x`.

    Raises `SpecError` for a malformed spec, or an axis that cannot be chosen; `ShapeError` for shapes that do
    not fit.
    """
    indexing = Indexing(spec, _values(ids), at, out_of_range, bound_dims(dims), scatters=False)
    return Tensor(indexing.apply(as_tensor(x).ir_value, "add", "gather"))


def scatter(
    spec: str,
    values: TensorLike,
    *ids: TensorLike,
    at: str | Sequence[str],
    accum: str = "add",
    out_of_range: str = "error",
    **dims: int | Dim,
) -> Tensor:
    """`values` accumulated at the positions `ids`: `oc.scatter("b | d; b | => v d", g, ids, at="v", v=65)`.

    The spec has a slot for the values, one for each tensor of ids, and the result; `at` names the axis of the
    result that the ids choose, or the axes, one for each tensor of ids. The size of such an axis is given in
    `dims`, or follows from how the result is used. `accum` is add, mul, max or min; cells that nothing
    reaches are its neutral element: 0, 1, -inf or inf.

    A value whose id is not a position of the axis (negative, too large, not whole) is left out, and the run
    raises `OcannlError` at its end. With `drop` it is left out, with `clamp` it goes to the nearest position,
    if the id is whole. Gradients go to the values.

    Raises `SpecError` for a malformed spec, or an axis that cannot be chosen; `ShapeError` for shapes that do
    not fit, and sizes that nothing determines.
    """
    if accum not in SCATTERING:
        raise SpecError(here(f"a scatter accumulates by {one_of(SCATTERING)}, found {accum!r}"))
    indexing = Indexing(spec, _values(ids), at, out_of_range, bound_dims(dims), scatters=True)
    return Tensor(indexing.apply(as_tensor(values).ir_value, accum, "scatter"))


def _values(ids: Sequence[TensorLike]) -> list[Value]:
    return [as_tensor(i).ir_value for i in ids]
