"""The axes of a tensor in the order of its memory, as far as its shape is known now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import Dim, DimTerm, Row, RowKind
from ocannl.dialects.texpr import NodeOp, ParamOp
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.arguments.errors import PositionError
from ocannl.program.location import here
from ocannl.program.types.final_types import close_shape
from ocannl.program.values import Value

MEMORY_ORDER: tuple[RowKind, ...] = ("batch", "output", "input")
SPEC_ORDER: tuple[RowKind, ...] = ("batch", "input", "output")
ONLY = "0"
"""An axis of size 1 in the slot of an operand: its position, which is not a reduction."""


@dataclass(frozen=True, slots=True)
class Place:
    """An axis of a row, counted from its front, or with a negative number from the end of an open row."""

    row: RowKind
    number: int


class MemoryAxes:
    """The axes of one tensor: batch, then output, then input axes.

    Where an axis that is asked for depends on what is not known, the tensor gets the final shape that it
    would get now.
    """

    def __init__(self, value: Value) -> None:
        self.value = value
        self.label = tensor_name(value)
        self.shape = graph.known_shape(value)

    @property
    def dims(self) -> list[DimTerm | None]:
        """The sizes of the axes, with None for a row variable."""
        found: list[DimTerm | None] = []
        for kind in MEMORY_ORDER:
            row = self.shape.row(kind)
            found += [*row.leading, *([] if row.var is None else [None]), *row.trailing]
        return found

    @property
    def places(self) -> list[Place]:
        """All axes. Raises `ShapeError` where nothing determines them."""
        self.close_rows(MEMORY_ORDER)
        return [Place(kind, n) for kind in MEMORY_ORDER for n in range(len(self.shape.row(kind).axes))]

    def place(self, axis: int) -> Place:
        """The axis of a number; negative ones count from the end.

        Raises `ShapeError` where nothing determines it, `IndexError` if there is none.
        """
        found = self._place(axis)
        if found is None:
            self.close()
            found = self._place(axis)
        assert found is not None, "the shape is final"
        return found

    def _place(self, axis: int) -> Place | None:
        """None where an open row leaves it unknown."""
        backward = axis < 0
        left = -axis - 1 if backward else axis
        for kind in reversed(MEMORY_ORDER) if backward else MEMORY_ORDER:
            row = self.shape.row(kind)
            known = len(row.axes if row.var is None else row.trailing if backward else row.leading)
            if left < known:
                from_front = known - 1 - left if row.var is None else -1 - left
                return Place(kind, from_front if backward else left)
            if row.var is not None:
                return None
            left -= known
        count = len(self.dims)
        axes = "1 axis" if count == 1 else f"{count or 'no'} axes"
        raise PositionError(f"`{self.label}` ({self.shape}) has {axes}, so there is no axis {axis}")

    def known_number(self, place: Place) -> int:
        """The number of an axis in the order of memory; negative where axes before it are not known."""
        rows = [self.shape.row(kind) for kind in MEMORY_ORDER]
        at = MEMORY_ORDER.index(place.row)
        if place.number >= 0 and all(row.var is None for row in rows[:at]):
            return sum(len(row.axes) for row in rows[:at]) + place.number
        after = sum(len(row.axes) for row in rows[at + 1 :])
        own = place.number if place.number < 0 else place.number - len(rows[at].axes)
        return own - after

    def dim(self, place: Place) -> DimTerm:
        """The size of an axis, which may be unknown."""
        row = self.shape.row(place.row)
        return (row.trailing if row.var is not None and place.number < 0 else row.axes)[place.number]

    def size(self, place: Place) -> int | None:
        """The size of an axis, if it is known."""
        dim = self.dim(place)
        return dim.size if isinstance(dim, Dim) else None

    def known_size(self, place: Place) -> int:
        """The size of an axis. Raises `ShapeError` where nothing determines it."""
        if self.size(place) is None:
            self.close()
        size = self.size(place)
        assert size is not None, "the shape is final"
        return size

    @property
    def sizes(self) -> list[int]:
        """The sizes of all axes. Raises `ShapeError` where nothing determines them."""
        return [self.known_size(place) for place in self.places]

    def number(self, place: Place) -> int:
        """The number of an axis in the order of memory."""
        return self.places.index(Place(place.row, place.number % len(self.shape.row(place.row).axes)))

    def slot(self, prefix: str = "") -> Slot:
        """The axes as those of a spec's slot, with names of their own."""
        return Slot({kind: _tokens(self.shape.row(kind), prefix + kind[0]) for kind in MEMORY_ORDER})

    def numbered(self, prefix: str) -> Slot:
        """The axes as those of a slot, numbered in the order of memory. Raises `ShapeError` for open rows."""
        rows: dict[RowKind, list[str]] = {kind: [] for kind in MEMORY_ORDER}
        for number, place in enumerate(self.places):
            rows[place.row].append(f"{prefix}{number}")
        return Slot(rows)

    def close_rows(self, kinds: Iterable[RowKind]) -> None:
        """Makes sure that the number of axes of some rows is known. Raises `ShapeError`."""
        if any(self.shape.row(kind).var is not None for kind in kinds):
            self.close()

    def close(self) -> None:
        """Gives the tensor the final shape that it would get now. Raises `ShapeError`."""
        try:
            self.shape = close_shape(self.value)
        except ShapeError as error:
            what = f"the axes of `{self.label}` are not known yet: its shape is {self.shape}"
            raise ShapeError(
                here(f"{what}; {self._way()}, or name axes in a spec (oc.einsum)\n{error}")
            ) from None

    def _way(self) -> str:
        """The way to make all axes known."""
        is_made = isinstance(self.value.op, NodeOp | ParamOp)
        kinds = [kind for kind in MEMORY_ORDER if is_made and self.shape.row(kind).var is not None]
        if not kinds:
            return "oc.infer(t) decides it"
        return f"give {' and '.join(f'{kind}=' for kind in kinds)} where it is made, [] for no axes"


def _tokens(row: Row, prefix: str) -> list[str]:
    names = [f"{prefix}{n}" for n in range(len(row.axes))]
    if row.var is None:
        return names
    split = len(row.leading)
    return [*names[:split], f"..{prefix}..", *names[split:]]


@dataclass(frozen=True, slots=True)
class Slot:
    """The axes of a slot of a spec by row, as text."""

    rows: dict[RowKind, list[str]]

    def at(self, place: Place) -> str:
        """The text of an axis."""
        return self.rows[place.row][place.number]

    def with_axes(self, others: Mapping[str, Sequence[str]]) -> Slot:
        """Other axes in the places of some."""
        return Slot(
            {
                kind: [name for axis in row for name in others.get(axis, (axis,))]
                for kind, row in self.rows.items()
            }
        )

    @property
    def axes(self) -> list[str]:
        """The axes in the order of memory."""
        return [axis for kind in MEMORY_ORDER for axis in self.rows[kind]]

    def __str__(self) -> str:
        # A comma ends each row, so that all names have many letters.
        rows = (self.rows[kind] for kind in SPEC_ORDER)
        batch, input, output = (", ".join(row) + "," * bool(row) for row in rows)
        return f"{batch} | {input} -> {output}"
