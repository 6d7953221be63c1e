"""Gathers and scatters: axes whose positions are the values of integer tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.spec import Affine, Axis, Padding, Slot, Spec, names_of
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.shapes.spec_parts import part_spaces
from ocannl.program.einsums import einsum
from ocannl.program.errors import ArgumentError
from ocannl.program.expressions import apply
from ocannl.program.id_checks import check_ids
from ocannl.program.leaves import arange
from ocannl.program.location import here
from ocannl.program.tensor import Dim, Tensor, TensorLike, as_tensor, pointwise

OUT_OF_RANGE = ("drop", "clamp", "error")
SCATTERING = ("add", "max", "min")


def gather(
    spec: str,
    x: TensorLike,
    *ids: TensorLike,
    at: str | Sequence[str],
    out_of_range: str = "drop",
    **dims: int | Dim,
) -> Tensor:
    """The elements of `x` at the positions `ids`: `oc.gather("v d; b t | => b t | d", table, ids, at="v")`.

    The spec has a slot for `x`, one for each tensor of ids, and the result; `at` names the axis of `x` that
    the ids choose, or the axes, one for each tensor of ids. Axes of `x` that are neither chosen nor in the
    result are summed. `dims` fix or capture dimensions, as in `oc.einsum`.

    An id that is no position of the axis (negative, too large, not whole) gives 0 with `drop`, the nearest
    position with `clamp` if it is whole; with `error` it gives 0, and the run raises `OcannlError` at its
    end. Gradients go to `x`.

    Raises `SpecError` for a malformed spec, or an axis that cannot be chosen; `ShapeError` for shapes that do
    not fit.
    """
    indexing = _Indexing(spec, ids, at, out_of_range, dims, scatters=False)
    return indexing.apply(x, "add", "gather")


def scatter(
    spec: str,
    values: TensorLike,
    *ids: TensorLike,
    at: str | Sequence[str],
    accum: str = "add",
    out_of_range: str = "drop",
    **dims: int | Dim,
) -> Tensor:
    """`values` accumulated at the positions `ids`: `oc.scatter("b | d; b | => v d", g, ids, at="v", v=65)`.

    The spec has a slot for the values, one for each tensor of ids, and the result; `at` names the axis of the
    result that the ids choose, or the axes, one for each tensor of ids. The size of such an axis is given in
    `dims`, or follows from how the result is used. `accum` is add, max or min; cells that nothing reaches are
    its neutral element: 0, -inf or inf.

    A value whose id is no position of the axis (negative, too large, not whole) is left out with `drop`, and
    goes to the nearest position with `clamp`, if the id is whole; with `error` it is left out, and the run
    raises `OcannlError` at its end. Gradients go to the values.

    Raises `SpecError` for a malformed spec, or an axis that cannot be chosen; `ShapeError` for shapes that do
    not fit, and sizes that nothing determines.
    """
    if accum not in SCATTERING:
        raise SpecError(here(f"a scatter accumulates by {_one_of(SCATTERING)}, found {accum!r}"))
    indexing = _Indexing(spec, ids, at, out_of_range, dims, scatters=True)
    return indexing.apply(values, accum, "scatter")


class _Indexing:
    """A gather or scatter as an einsum over all positions, with terms where an id equals the position."""

    def __init__(
        self,
        spec: str,
        ids: Sequence[TensorLike],
        at: str | Sequence[str],
        out_of_range: str,
        dims: dict[str, int | Dim],
        *,
        scatters: bool,
    ) -> None:
        if not isinstance(spec, str):
            raise ArgumentError(
                f"a spec is a string, found {type(spec).__name__}; it stands before the operands"
            )
        self.text = spec
        self.at = _axis_names(at)
        self.scatters = scatters
        if out_of_range not in OUT_OF_RANGE:
            raise SpecError(
                here(f"ids out of range are treated by {_one_of(OUT_OF_RANGE)}, found {out_of_range!r}")
            )
        if not ids or len(self.at) != len(ids):
            raise SpecError(
                here(f"`at` names an axis for each tensor of ids: {self.at} for {len(ids)} in {spec!r}")
            )
        self.spec = self._parsed(spec, 1 + len(ids))
        for name in self.at:
            self._check_axis(name)
        self._check_slots()
        self.out_of_range = out_of_range
        self.dims = dims | {name: _dim(name, dims.get(name)) for name in self.at}
        self.ids = [as_tensor(i) for i in ids]

    def _parsed(self, spec: str, operands: int) -> Spec:
        try:
            return parse_spec(spec, operands)
        except SpecSyntaxError as error:
            raise SpecError(here(str(error))) from None

    def _check_axis(self, name: str) -> None:
        first, *others = self.spec.operands
        chosen, fixed = (self.spec.result, [first]) if self.scatters else (first, [self.spec.result])
        place = "the result" if self.scatters else "the first slot"
        if name not in _names(chosen):
            raise SpecError(here(f"`{name}` is no axis of {place} of {self.text!r}, to be chosen by ids"))
        if self.at.count(name) > 1:
            raise SpecError(here(f"`{name}` is chosen twice in {self.text!r}"))
        if any(name in _names(slot) for slot in (*fixed, *others)):
            raise SpecError(
                here(f"`{name}` is chosen by ids in {place} of {self.text!r}, so no other slot has it")
            )

    def _check_slots(self) -> None:
        for slot in self.spec.operands[1:]:
            for axis in _axes(slot):
                if isinstance(axis, Affine) and axis.padding is Padding.PADDED:
                    raise SpecError(
                        here(f"`{axis}` in {self.text!r} reads beyond the ends, where there are no ids")
                    )
        slots = len(self.spec.operands)
        if any(0 in space.reads and len(space.reads) < slots for space in part_spaces(self.spec)):
            raise SpecError(
                here(f"in {self.text!r}, ids are left out of a part in which the first slot is read")
            )

    def apply(self, x: TensorLike, accum: str, label: str) -> Tensor:
        ids = self.ids
        sizes = [self.dims[name] for name in self.at]
        if self.out_of_range == "clamp":
            ids = [_clamped(i, size) for i, size in zip(ids, sizes, strict=True)]
        operands, result = self.text.split("=>")
        own, *slots = operands.split(";")
        pairs = [slot for pair in zip(slots, self.at, strict=True) for slot in pair]
        logic = f"{'; '.join(slot.strip() for slot in (*pairs, own))} =>{result}"
        term = _where_equal(len(ids), SCALAR_OPS[accum].neutral or 0.0)
        bound = [(name, _dim(name, dim).term) for name, dim in self.dims.items()]
        args = [arg for i, size in zip(ids, sizes, strict=True) for arg in (i, arange(size))]
        operands = [as_tensor(arg).ir_value for arg in (*args, x)]
        value = apply(term, operands, logic=logic, accum=accum, dims=bound, label=label)
        if self.out_of_range == "error":
            counts = [_outside(i, size) for i, size in zip(ids, sizes, strict=True)]
            check_ids(value, sum(counts[1:], counts[0]).ir_value)
        return Tensor(value)


def _axis_names(at: str | Sequence[str]) -> list[str]:
    names: Sequence[object] = [at] if isinstance(at, str) else at
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"`at` is the name of an axis, or a tuple of names, found {at!r}")
    return [str(name) for name in names]


def _names(slot: Slot) -> set[str]:
    return {name for axis in _axes(slot) for name in names_of(axis)}


def _axes(slot: Slot) -> list[Axis]:
    return [axis for row in slot.rows for axis in row.axes]


def _one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _dim(name: str, dim: int | Dim | None) -> Dim:
    if isinstance(dim, Dim):
        return dim
    if isinstance(dim, bool) or not isinstance(dim, SupportsIndex | None):
        raise SpecError(
            f"`{name}` is fixed by an integer or captured by an oc.Dim, found {type(dim).__name__}"
        )
    return Dim(name, None if dim is None else operator.index(dim))


def _where_equal(count: int, neutral: float) -> Term:
    """The last argument where the first of each of `count` pairs before it equals the second.

    Operands stand in the order of their first use, as they do in text.
    """
    equal: list[Term] = [App("eq", (Arg(2 * k), Arg(2 * k + 1))) for k in range(count)]
    condition = equal[0]
    for other in equal[1:]:
        condition = App("and", (condition, other))
    return App("where", (condition, Arg(2 * count), Const(neutral)))


def _clamped(ids: Tensor, size: int | Dim) -> Tensor:
    """By a spec, because a pointwise result could have more cells than the ids."""
    term = App("min", (App("max", (Arg(0), Const(0.0))), Arg(1)))
    operands = [ids.ir_value, as_tensor(size - 1).ir_value]
    return Tensor(apply(term, operands, logic="... | ... -> ...; => ... | ... -> ..."))


def _outside(ids: Tensor, size: int | Dim) -> Tensor:
    """How many of `ids` are no positions."""
    inside = [ids >= 0, ids < size, pointwise("eq", ids, pointwise("floor", ids))]
    return einsum("... | ... -> ... => 0", 1 - inside[0] * inside[1] * inside[2])
