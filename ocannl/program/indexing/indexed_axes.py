"""Axes whose positions are the values of integer tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import f32

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.ir.op_helpers import drop_uses
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar
from ocannl.dialects.shapes.spec import Affine, Axis, Padding, Slot, Spec, names_of
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.shapes.spec_parts import part_spaces
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.expressions import SAME_SHAPE, apply, convert, positions, size_of
from ocannl.program.indexing.id_checks import IdCheck, least_wrong
from ocannl.program.location import here
from ocannl.program.values import Value, label_of, values_of

OUT_OF_RANGE = ("error", "drop", "clamp")
SCATTERING = ("add", "mul", "max", "min")


class Indexing:
    """A gather or scatter as an einsum over all positions, with terms where an id equals the position."""

    def __init__(
        self,
        spec: str,
        ids: Sequence[Value],
        at: str | Sequence[str],
        out_of_range: str,
        dims: Mapping[str, DimTerm],
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
                here(f"ids out of range are treated by {one_of(OUT_OF_RANGE)}, found {out_of_range!r}")
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
        self.captures = any(isinstance(dim, DimVar) for dim in dims.values())
        self.dims = {**dims, **{name: dims[name] if name in dims else graph.fresh_dim() for name in self.at}}
        self.ids = ids

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

    def apply(self, x: Value, accum: str, label: str) -> Value:
        """The gather from `x`, or the scatter of it. In eager mode the same one is the same value."""
        if not is_eager() or self.captures:
            return self._applied(x, accum, label)
        sizes = tuple([item for item in self.dims.items() if isinstance(item[1], Dim)])
        key = "ids", self.text, *self.at, self.out_of_range, *sizes, *self.ids, x, accum
        return RECORDER.once(key, lambda: self._applied(x, accum, label))

    def _applied(self, x: Value, accum: str, label: str) -> Value:
        ids = self.ids
        sizes = [self.dims[name] for name in self.at]
        if self.out_of_range == "clamp":
            ids = [_clamped(i, size) for i, size in zip(ids, sizes, strict=True)]
        operands, result = self.text.split("=>")
        own, *slots = operands.split(";")
        pairs = [slot for pair in zip(slots, self.at, strict=True) for slot in pair]
        logic = f"{'; '.join(slot.strip() for slot in (*pairs, own))} =>{result}"
        term = _where_equal(len(ids), SCALAR_OPS[accum].neutral or 0.0)
        args = [arg for i, size in zip(ids, sizes, strict=True) for arg in (i, positions(size))]
        value = apply(term, [*args, x], logic=logic, accum=accum, dims=[*self.dims.items()], label=label)
        if self.out_of_range == "error":
            value.id_checks = [_check(value, *each) for each in zip(ids, sizes, strict=True)]
        return value


def _axis_names(at: str | Sequence[str]) -> list[str]:
    names: Sequence[object] = [at] if isinstance(at, str) else at
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"`at` is the name of an axis, or a tuple of names, found {at!r}")
    return [str(name) for name in names]


def _names(slot: Slot) -> set[str]:
    return {name for axis in _axes(slot) for name in names_of(axis)}


def _axes(slot: Slot) -> list[Axis]:
    return [axis for row in slot.rows for axis in row.axes]


def one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _where_equal(count: int, neutral: float) -> Term:
    """`where(a0 == a1 and a2 == a3 and ..., last, neutral)` with `count` comparisons: the operands are in the
    order of their first use, as in text.
    """
    equal: list[Term] = [App("eq", (Arg(2 * k), Arg(2 * k + 1))) for k in range(count)]
    condition = equal[0]
    for other in equal[1:]:
        condition = App("and", (condition, other))
    return App("where", (condition, Arg(2 * count), Const(neutral)))


def _clamped(ids: Value, size: DimTerm) -> Value:
    """By a spec, because a pointwise result could have more cells than the ids."""
    term = App("min", (App("max", (Arg(0), Const(0))), App("sub", (Arg(1), Const(1)))))
    return apply(term, [ids, size_of(size)], logic="... | ... -> ...; => ... | ... -> ...")


def checked_ids(ids: Value, place: str, size: DimTerm) -> Value:
    """The same ids, which are checked when they are used; `place` is what they choose from. Those that are
    checked for as many positions already are given back.
    """
    key = (*values_of(ids.op), graph.known_dim(size))
    if any(check.key == key for check in ids.id_checks):
        return ids
    value = apply(Arg(0), [ids], logic=SAME_SHAPE, label="positions")
    value.id_checks = [replace(_check(value, ids, size), place=place)]
    return value


def _check(value: Value, ids: Value, size: DimTerm) -> IdCheck:
    operands = [ids, size_of(size), convert(ids, f32)]
    least = apply(least_wrong(), operands, logic="... | ... -> ...; ; ... | ... -> ... => 0", accum="min")
    statement = texpr.ForwardOp(least)
    statement.location = value.op.location
    drop_uses(statement)

    def size_now() -> int:
        dim = graph.known_dim(size)
        assert isinstance(dim, Dim)
        return dim.size

    return IdCheck(value.op, label_of(ids), size_now, statement, key=(ids, graph.known_dim(size)))
