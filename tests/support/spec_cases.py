"""Specs in which all forms of the notation are mixed, for tests by hypothesis."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import assume
from hypothesis import strategies as st
from support.spec_meaning import points, spaces
from support.written_specs import (
    Affine,
    Anything,
    Axis,
    Case,
    Concat,
    Fixed,
    Name,
    Product,
    Row,
    RowName,
    Slot,
    names_of,
)

LETTERS = ("a", "b", "c", "d", "e", "f", "g", "é")
WORDS = ("row", "col", "a", "hd", "x1", "ch_", "k9", "größe")
STRIDES = ("z", "stride")
KINDS = ("batch", "input", "output")
MOST_POINTS = 1500
MOST_CELLS = 300


@st.composite
def cases(draw: st.DrawFn, most: int = 3) -> Case:
    """One to `most` operands whose rows have up to two axes of any form, and a row variable."""
    return _Drawer(draw, draw(st.booleans())).case(draw(st.integers(1, most)))


@st.composite
def memory_cases(draw: st.DrawFn) -> Case:
    """One operand that is accumulated into memory, from whose shapes all sizes follow."""
    case = replace(_Drawer(draw, draw(st.booleans()), into_memory=True).case(1), use_padding=False)
    assume(inferred(case, (), case.slots) >= case.names)
    return case


@st.composite
def chosen_cases(draw: st.DrawFn) -> tuple[Case, list[str], bool]:
    """An array, one or two tensors of ids, and the names of the axes of the array that they choose; or of the
    result, which is then scattered.
    """
    ids, scatters = draw(st.integers(1, 2)), draw(st.booleans())
    case = replace(_Drawer(draw, draw(st.booleans())).case(1 + ids), use_padding=False)
    at = ["v", "w"][:ids]
    sizes = {**case.sizes, **{name: draw(st.integers(1, 3)) for name in at}}
    slots = [*case.slots]
    chosen = -1 if scatters else 0
    for name in at:
        others = [axis.name for axis in slots[chosen].axes if isinstance(axis, Name) and axis.name not in at]
        form: Axis = Name(name)
        if others and draw(st.booleans()):
            form = Product((form, Name(others[0])))
        slots[chosen] = _with_axis(slots[chosen], draw(st.sampled_from(KINDS)), form)
    case = replace(case, operands=tuple(slots[:-1]), result=slots[-1], sizes=sizes)
    _assume_small(case)
    assume(not any(_is_padded(case, slot) for slot in case.operands[1:]))
    assume(all(len(space.reads) == 1 + ids for space in spaces(case) if 0 in space.reads))
    return case, at, scatters


def _with_axis(slot: Slot, kind: str, axis: Axis) -> Slot:
    row: Row = getattr(slot, kind)
    return replace(slot, **{kind: replace(row, trailing=(*row.trailing, axis))})


def _is_padded(case: Case, slot: Slot) -> bool:
    return any(isinstance(axis, Affine) and axis.kernel and case.is_padded(axis) for axis in slot.axes)


def _assume_small(case: Case) -> None:
    assume(all(math.prod(case.shape(slot)) <= MOST_CELLS for slot in case.slots))
    assume(all(points(case, space)[0] <= MOST_POINTS for space in spaces(case)))


@dataclass
class _Drawer:
    draw: st.DrawFn
    has_words: bool
    into_memory: bool = False
    """The result has a shape of its own, and there are no names of coefficients."""
    names: list[str] = field(default_factory=list[str])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    parts: list[str | int] = field(default_factory=list[str | int])
    factors: list[RowName] = field(default_factory=list[RowName])
    """Row variables of which an operand says the axes."""

    def case(self, operands: int) -> Case:
        draw, size = self.draw, st.integers(1, 3)
        self.names = list(WORDS if self.has_words else LETTERS)
        if draw(st.booleans()):
            self._take_parts()
        self.sizes |= {name: draw(size) for name in self.names}
        self.rows = {name: tuple(draw(st.lists(size, max_size=2))) for name in (*KINDS, "r", "s")}
        skeletons = [self._row_variables() for _ in range(operands + 1)]
        self.factors = [var for rows in skeletons[:-1] for var in rows if var is not None]
        for var in skeletons[-1]:
            if var is not None and var not in self.factors:
                self.rows[var.name] = ()
        slots = tuple(
            self._slot(rows, is_free=i == operands and not self.into_memory)
            for i, rows in enumerate(skeletons)
        )
        case = Case(slots[:-1], slots[-1], self.sizes, self.rows, self.has_words, draw(st.booleans()))
        assume(not self.has_words or "," in case.text)
        # Every operand has to be read somewhere.
        assume({slot for space in spaces(case) for slot in space.reads} == set(range(operands)))
        _assume_small(case)
        return case

    def _take_parts(self) -> None:
        """The first names become parts of concatenations, with a number among them or not."""
        named = self.draw(st.integers(1, 3))
        self.parts = [*self.names[:named]]
        self.sizes |= {name: self.draw(st.integers(0, 3)) for name in self.names[:named]}
        self.names = self.names[named:]
        if named == 1 or self.draw(st.booleans()):
            self.parts.insert(self.draw(st.integers(0, named)), self.draw(st.integers(1, 2)))

    def _row_variables(self) -> list[RowName | None]:
        """Those of the batch, input and output row; a slot has each at most once."""
        found: list[RowName | None] = []
        for kind in KINDS:
            name = self.draw(st.sampled_from([None, None, kind, "r", "s"]))
            var = None if name is None else RowName(name)
            found.append(None if var in found else var)
        return found

    # An axis of a free result has the least size that its form allows.

    def _slot(self, variables: Sequence[RowName | None], *, is_free: bool) -> Slot:
        return Slot(*(self._row(var, is_free=is_free) for var in variables))

    def _row(self, var: RowName | None, *, is_free: bool) -> Row:
        axes = tuple(self._axis(is_free=is_free) for _ in range(self.draw(st.sampled_from([0, 0, 1, 1, 2]))))
        split = 0 if var is None else self.draw(st.integers(0, len(axes)))
        return Row(axes[:split], var, axes[split:])

    def _axis(self, *, is_free: bool) -> Axis:
        draw = self.draw
        forms = ["name"] * 4 + ["fixed", "anything", "product", "product", "window", "window", "stride"]
        match draw(st.sampled_from([*forms, *["part"] * (6 if self.parts else 0)])):
            case "fixed":
                position = draw(st.integers(0, 2))
                return Fixed(position, position + 1 + (0 if is_free else draw(st.integers(0, 1))))
            case "anything":
                return Anything(1 if is_free else draw(st.integers(1, 3)))
            case "product":
                return self._product()
            case "window":
                over, kernel = self._different_names(2)
                plus = draw(st.sampled_from(["+", "+", "=+", "<+"]))
                return self._affine(over, kernel, draw(st.integers(1, 2)), plus)
            case "stride":
                (over,) = self._different_names(1)
                affine = self._affine(over, None, 1, "+")
                return affine if affine.stride > 1 or affine.offset else Name(over)
            case "part":
                return self._part()
            case _:
                return Name(draw(st.sampled_from(self.names)))

    def _affine(self, over: str, kernel: str | None, dilation: int, plus: str) -> Affine:
        stride, offset = self.draw(st.integers(1, 3)), self.draw(st.sampled_from([0, 0, 1, 2, 4]))
        is_named = stride > 1 and not self.into_memory and self.draw(st.booleans())
        name = STRIDES[self.has_words] if is_named else None
        if name is not None:
            stride = self.sizes.setdefault(name, stride)
        return Affine(over, kernel, stride, dilation, offset, plus, name)

    def _product(self) -> Product:
        factors: list[Name | RowName] = [Name(name) for name in self._different_names(2)]
        if self.factors and self.draw(st.booleans()):
            factors[self.draw(st.integers(0, 1))] = self.draw(st.sampled_from(self.factors))
        return Product(tuple(factors))

    def _part(self) -> Axis:
        """The whole concatenation, some of its parts, or one of them alone."""
        names = [part for part in self.parts if isinstance(part, str)]
        form = self.draw(st.sampled_from(["whole", "whole", "some", "name", "name"]))
        if form == "name":
            return Name(self.draw(st.sampled_from(names)))
        if form == "whole":
            return Concat(tuple(self.parts))
        chosen = self.draw(st.permutations(self.parts))[: self.draw(st.integers(2, len(self.parts)))]
        return Concat(tuple(chosen))

    def _different_names(self, count: int) -> list[str]:
        """Parts that are not empty among them."""
        parts = [part for part in self.parts if isinstance(part, str) and self.sizes[part]]
        return self.draw(st.permutations([*self.names, *parts]))[:count]


# What is given.


def inferred(case: Case, given: Collection[str], shapes: Sequence[Slot]) -> set[str]:
    """The names whose sizes follow, one by one, from those given and from the shapes of some slots."""
    known = set(given)
    axes = [axis for slot in shapes for axis in slot.axes]
    while found := {name for axis in axes for name in _determined(case, axis, known)} - known:
        known |= found
    return known


def _determined(case: Case, axis: Axis | RowName, known: Collection[str]) -> list[str]:
    names = names_of(axis)
    unknown = [name for name in names if name not in known]
    if isinstance(axis, Affine) and axis.kernel and case.is_padded(axis):
        unknown = [name for name in unknown if name == axis.over]
    if isinstance(axis, Product) and 0 in case.axis_sizes(axis):
        return []
    return unknown if len(unknown) == 1 else []


@st.composite
def givens(draw: st.DrawFn, case: Case, shapes: Sequence[Slot]) -> dict[str, int]:
    """Sizes by keyword, from which and from the shapes of some slots all others follow."""
    axes = [axis for slot in case.slots for axis in slot.axes]
    names = case.names
    given = {axis.stride_name for axis in axes if isinstance(axis, Affine) and axis.stride_name}
    given |= set(draw(st.lists(st.sampled_from(sorted(names)), max_size=2))) if names else set()
    for name in draw(st.permutations(sorted(names))):
        if name not in inferred(case, given, shapes):
            given.add(name)
    return {name: case.sizes[name] for name in sorted(given)}


def is_said_by(case: Case, slot: Slot, shapes: Sequence[Slot]) -> bool:
    """Whether every axis of a slot follows from the sizes of names, and rows that other slots have."""
    rows = {axis for other in shapes for axis in other.axes if isinstance(axis, RowName)}
    own = {axis for axis in slot.axes if isinstance(axis, RowName)}
    return own <= rows and not any(isinstance(axis, Fixed | Anything) for axis in slot.axes)


@st.composite
def sized_cases(draw: st.DrawFn) -> tuple[Case, dict[str, int]]:
    case = draw(cases())
    return case, draw(givens(case, case.operands))
