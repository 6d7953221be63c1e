"""Index maps of einsum specs: one iteration space for each part of the concatenations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from ocannl.dialects.index.linear import Linear, Space
from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import Dim, Row, Shape
from ocannl.dialects.shapes.spec import (
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
)
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.shapes.spec_parts import PartSpace, part_spaces
from ocannl.passes.analysis.projection import ZERO, MisfitError, Projection, RowMaps

Margins: TypeAlias = tuple[tuple[int, int], ...]
"""How many cells are read before and after each axis of a tensor, in the order of memory."""


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The index map of one operand, or of the result; indices count from the first cell of the margins."""

    indices: tuple[Linear, ...]
    margins: Margins

    @property
    def is_padded(self) -> bool:
        return any(margin != (0, 0) for margin in self.margins)


@dataclass(frozen=True, slots=True)
class SpecPart:
    """One iteration space of a spec, with the operands that are read in it."""

    space: tuple[tuple[str, int], ...]
    result: SlotMap
    operands: dict[int, SlotMap]


@lru_cache(maxsize=2**10)
def project_spec(
    text: str, result: Shape, args: tuple[Shape, ...], sizes: Space, taken: frozenset[str]
) -> tuple[SpecPart, ...]:
    """The parts of a spec over final shapes; `sizes` are those, and coefficients, known by name only.

    Raises `MisfitError`.
    """
    spec = parse_spec(text, len(args))
    rows, dims = _row_sizes(spec, [*args, result]), dict(sizes)
    return tuple(_part(spec, result, args, dims, rows, space, taken) for space in part_spaces(spec))


def _part(
    spec: Spec,
    result: Shape,
    args: Sequence[Shape],
    dims: Mapping[str, int],
    rows: Mapping[str, Sequence[int]],
    space: PartSpace,
    taken: frozenset[str],
) -> SpecPart:
    """One space of a spec; the result's variables come first in it, in the order of its memory."""
    projection = Projection(taken)
    maps = SpecMaps(projection, spec, dims, rows, space)
    written = maps.slot(len(args), result)
    read = {slot: maps.slot(slot, args[slot]) for slot in space.reads}
    return SpecPart(tuple(projection.space.items()), written, read)


def _row_sizes(spec: Spec, shapes: Sequence[Shape]) -> dict[str, Sequence[int]]:
    """The sizes of the axes of each row variable."""
    found: dict[str, Sequence[int]] = {}
    for slot, shape in zip(spec.slots, shapes, strict=True):
        for written, row in zip(slot.rows, shape, strict=True):
            sizes = row.sizes
            spare = len(sizes) - len(written.axes)
            if spare < 0 or (written.var is None and spare):
                raise MisfitError
            if written.var is not None:
                middle = sizes[len(written.leading) : len(written.leading) + spare]
                if tuple(found.setdefault(written.var, middle)) != tuple(middle):
                    raise MisfitError
    return found


@dataclass
class SpecMaps:
    """The variables of one space of a spec: a name or a row variable is the same in all slots."""

    projection: Projection
    spec: Spec
    dims: Mapping[str, int]
    row_sizes: Mapping[str, Sequence[int]]
    part: PartSpace
    names: dict[str, Linear] = field(default_factory=dict[str, Linear])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    rows: dict[str, list[Linear]] = field(default_factory=dict[str, list[Linear]])

    def slot(self, slot: int, shape: Shape) -> SlotMap:
        batch, input, output = (
            self._row(slot, kind, row, shape_row.sizes, hint)
            for kind, (row, shape_row, hint) in enumerate(
                zip(self.spec.slots[slot].rows, shape, "bio", strict=True)
            )
        )
        indices = RowMaps(batch, input, output).memory
        return self._within(indices, shape.memory_sizes)

    def _within(self, indices: Sequence[Linear], sizes: Sequence[int]) -> SlotMap:
        """Margins for the indices that leave the array."""
        space = self.projection.space
        margins: list[tuple[int, int]] = []
        for index, size in zip(indices, sizes, strict=True):
            if any(space.get(name) == 0 for name in index.names):
                margins.append((0, 0))
                continue
            low, high = index.extremes(space) or (0, 0)
            margins.append((max(0, -low), max(0, high - size + 1)))
        shifted = tuple(i + Linear((), before) for i, (before, _) in zip(indices, margins, strict=True))
        return SlotMap(shifted, tuple(margins))

    def _row(self, slot: int, kind: int, spec: RowSpec, sizes: Sequence[int], hint: str) -> list[Linear]:
        ahead, end = len(spec.leading), len(sizes) - len(spec.trailing)
        own = [*sizes[:ahead], *sizes[end:]]
        maps = [
            self._axis(axis, size, self.part.parts.get((slot, kind, place)))
            for place, (axis, size) in enumerate(zip(spec.leading, own[:ahead], strict=True))
        ]
        if spec.var is not None:
            maps += self._row_var(spec.var, hint)
        return maps + [
            self._axis(axis, size, self.part.parts.get((slot, kind, ahead + place)))
            for place, (axis, size) in enumerate(zip(spec.trailing, own[ahead:], strict=True))
        ]

    def _row_var(self, name: str, hint: str) -> list[Linear]:
        if name not in self.rows:
            self.rows[name] = [self.projection.variable(s, hint) for s in self.row_sizes[name]]
        return self.rows[name]

    def _name(self, name: str, size: int) -> Linear:
        if self.sizes.setdefault(name, size) != size:
            raise MisfitError
        if name not in self.names:
            self.names[name] = self.projection.variable(size, name)
        return self.names[name]

    def _axis(self, axis: Axis, size: int, part: int | None) -> Linear:
        match axis:
            case Name(name):
                return self._name(name, size)
            case Fixed(position):
                if position >= size:
                    raise MisfitError
                return Linear((), position)
            case Anything():
                return self.projection.variable(size, "u")
            case Concat(parts):
                assert part is not None
                return self._concat(parts, part)
            case Product():
                return self._product(axis)
            case Affine():
                return self._affine(axis)

    def _concat(self, parts: Sequence[Name | Fixed], chosen: int) -> Linear:
        before = Linear((), sum(map(self._part_size, parts[:chosen])))
        part, size = parts[chosen], self._part_size(parts[chosen])
        own = self._name(part.name, size) if isinstance(part, Name) else self.projection.variable(size, "u")
        return own + before

    def _part_size(self, part: Name | Fixed) -> int:
        return self.dims[part.name] if isinstance(part, Name) else part.value

    def _product(self, axis: Product) -> Linear:
        index = ZERO
        for factor in axis.factors:
            if isinstance(factor, RowPart):
                variables, sizes = self._row_var(factor.name, "r"), self.row_sizes[factor.name]
            else:
                size = self.dims[factor.name]
                variables, sizes = [self._name(factor.name, size)], [size]
            for variable, size in zip(variables, sizes, strict=True):
                index = index * size + variable
        return index

    def _affine(self, axis: Affine) -> Linear:
        """The index of a strided window; a padded window has its middle at the stride's position."""
        index, reach = Linear((), axis.offset), 0
        for term in axis.terms:
            size, coefficient = self.dims[term.name], self._coefficient(term)
            last = coefficient * (size - 1)
            reach += last if term is not axis.terms[0] else 0
            position = self._name(term.name, size) * coefficient
            index += Linear((), last) + position * -1 if term.is_reversed else position
        return index + Linear((), -(reach // 2)) if axis.padding is Padding.PADDED else index

    def _coefficient(self, term: Term) -> int:
        return term.coefficient if isinstance(term.coefficient, int) else self.dims[term.coefficient]


def padded_shape(shape: Shape, margins: Margins) -> Shape:
    """The shape with its margins."""
    batch, output = len(shape.batch.sizes), len(shape.output.sizes)
    rows = (margins[:batch], margins[batch + output :], margins[batch : batch + output])
    return Shape(*(_padded_row(row, around) for row, around in zip(shape, rows, strict=True)))


def _padded_row(row: Row, margins: Margins) -> Row:
    sizes = zip(row.axes, row.sizes, margins, strict=True)
    axes = [Dim(size + sum(around)) if any(around) else axis for axis, size, around in sizes]
    split = len(row.leading)
    return Row(tuple(axes[:split]), None, tuple(axes[split:]))
