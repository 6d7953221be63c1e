"""The rows of the slots of an einsum spec, and the arithmetic between their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from ocannl.dialects.ir.errors import SpecError
from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import Dim, DimTerm, Row, RowVar, closed_row
from ocannl.dialects.shapes.spec import (
    ROW_NAMES,
    Affine,
    Anything,
    Axis,
    Concat,
    Fixed,
    Name,
    Padding,
    Product,
    RowPart,
    RowSpec,
    Spec,
    Term,
    coefficients_of,
    names_of,
)
from ocannl.dialects.shapes.spec_parts import part_spaces
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import Constraint, DimAtLeast, DimProduct, DimSum


@dataclass(slots=True)
class SpecRows:
    """The rows of one spec's slots: names, row variables and bound dimensions are shared by all slots.

    `relations` are the constraints beyond the rows themselves.
    """

    solver: Solver
    spec: Spec
    origin: Callable[[], object]
    dims: dict[str, DimTerm]
    rows: dict[str, RowVar] = field(default_factory=dict[str, RowVar])
    relations: list[Constraint] = field(default_factory=list[Constraint])

    def row(self, spec: RowSpec) -> Row:
        var = None if spec.var is None else self._row_var(spec.var)
        leading = tuple(self._axis(a) for a in spec.leading)
        return Row(leading, var, tuple(self._axis(a) for a in spec.trailing))

    def capture_rows(self) -> None:
        """Constrains a dimension that is bound to the name of a row variable to the product of its axes."""
        axes = {name for axis in axes_of(self.spec) for name in names_of(axis)}
        for name, var in self.rows.items():
            if name in self.dims and name not in axes:
                self.relations.append(
                    DimProduct(self.dims[name], (Row(var=var),), f"..{name}..", self.origin())
                )

    def named(self) -> dict[str, DimTerm]:
        """The dimensions with names in products, sums and strides."""
        return {name: self.dims[name] for name in sorted(self.spec.structured_names)}

    def _row_var(self, name: str) -> RowVar:
        if name not in self.rows:
            self.rows[name] = self.solver.fresh_row()
        return self.rows[name]

    def _dim(self, name: str) -> DimTerm:
        if name not in self.dims:
            self.dims[name] = self.solver.fresh_dim()
        return self.dims[name]

    def _axis(self, axis: Axis) -> DimTerm:
        if isinstance(axis, Name):
            return self._dim(axis.name)
        dim = self.solver.fresh_dim()
        match axis:
            case Fixed(position):
                self.relations.append(DimAtLeast(dim, position + 1, self.origin()))
            case Product():
                self.relations.append(self._product(axis, dim))
            case Concat():
                self.relations.append(self._concat(axis, dim))
            case Affine():
                self.relations.append(self._affine(axis, dim))
            case Anything():
                pass
        return dim

    def _product(self, axis: Product, whole: DimTerm) -> DimProduct:
        factors = tuple(
            Row(var=self._row_var(part.name))
            if isinstance(part, RowPart)
            else closed_row(self._dim(part.name))
            for part in axis.factors
        )
        return DimProduct(whole, factors, str(axis), self.origin())

    def _concat(self, axis: Concat, whole: DimTerm) -> DimSum:
        constant = sum(part.value for part in axis.parts if isinstance(part, Fixed))
        names = [part.name for part in axis.parts if isinstance(part, Name)]
        once = self.spec.names_used_once()
        return DimSum(
            whole,
            tuple((1, self._dim(name)) for name in names),
            constant,
            str(axis),
            droppable=tuple(self._dim(name) for name in names if name in once),
            origin=self.origin(),
        )

    def _affine(self, axis: Affine, whole: DimTerm) -> DimSum:
        """An axis read by whole strides and a window: the last position that is read is the last of the axis.

        The first term comes last, so that it gets the remainder of the window.
        """
        (stride, over), *window = [(self.coefficient(term), self._dim(term.name)) for term in axis.terms]
        if not window or axis.padding is Padding.PADDED:
            offset = 0 if window else axis.offset // stride * stride
            return DimSum(whole, ((stride, over),), offset, str(axis), origin=self.origin())
        constant = 1 - stride - sum(dilation for dilation, _ in window) + axis.offset
        terms = (*window, (stride, over))
        return DimSum(whole, terms, constant, str(axis), 1, window=True, origin=self.origin())

    def coefficient(self, term: Term) -> int:
        return coefficient_of(term, self.dims, self.solver.dim)


def coefficient_of(term: Term, dims: Mapping[str, DimTerm], known: Callable[[DimTerm], DimTerm]) -> int:
    """The value of a coefficient, which is given by keyword if it has a name. Raises `SpecError`."""
    if isinstance(term.coefficient, int):
        return term.coefficient
    given = dims.get(term.coefficient)
    value = None if given is None else known(given)
    if not isinstance(value, Dim) or value.size < 1:
        found = "nothing" if value is None else str(value)
        raise SpecError(
            f"the coefficient `{term.coefficient}` of `{term}` is a number of 1 or more, given by keyword; "
            f"found {found}"
        )
    return value.size


def axes_of(spec: Spec) -> Iterator[Axis]:
    for slot in spec.slots:
        for row in slot.rows:
            yield from row.axes


def check_spec(
    spec: Spec, text: str, dims: Mapping[str, DimTerm], known: Callable[[DimTerm], DimTerm]
) -> None:
    """Checks conditions on a spec beyond its grammar. Raises `SpecError`."""
    if dims:
        _check_bound(spec, text, dims)
    rows = {row.var for slot in spec.slots for row in slot.rows}
    for axis in axes_of(spec):
        for name in names_of(axis):
            if name in rows.difference(ROW_NAMES):
                raise SpecError(
                    f"`{name}` is an axis of {text!r}, and `..{name}..` a row of axes: rename one"
                )
        if isinstance(axis, Affine):
            for term in axis.terms:
                _check_coefficient(term, spec)
                coefficient_of(term, dims, known)
        if isinstance(axis, Product):
            for part in axis.factors:
                if isinstance(part, RowPart) and part.name not in rows:
                    message = f"`{part}` in `{axis}` says nothing of its axes: it is nowhere a row of its own"
                    raise SpecError(message)
    spaces = part_spaces(spec)
    if not spaces:
        raise SpecError(f"no part of the concatenations in {text!r} is in both an operand and the result")
    unread = set(range(len(spec.operands))).difference(*(space.reads for space in spaces))
    if unread:
        raise SpecError(
            f"operand {min(unread) + 1} of {text!r} is in no part of a concatenation that the result has"
        )


def _check_coefficient(term: Term, spec: Spec) -> None:
    """Raises `SpecError` for a coefficient whose name an axis has, too."""
    name = term.coefficient
    if isinstance(name, str) and any(name in names_of(axis) for axis in axes_of(spec)):
        raise SpecError(
            f"`{name}` is the coefficient of `{term}`, and an axis: rename one; the product of two axes is "
            f"`{name}&{term.name}`"
        )


def _check_bound(spec: Spec, text: str, dims: Mapping[str, DimTerm]) -> None:
    names = {name for axis in axes_of(spec) for name in (*names_of(axis), *coefficients_of(axis))}
    names |= {row.var for slot in spec.slots for row in slot.rows if row.var is not None}
    for name in dims:
        if name not in names:
            known = ", ".join(sorted(names)) or "no names"
            raise SpecError(f"`{name}` is given a size, but the spec {text!r} names {known}")
