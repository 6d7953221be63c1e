"""The einsum notation: `slot (';' slot)* '=>' slot`, each slot `batch | input -> output`.

Without a comma anywhere every letter is one axis and spaces are ignored; with one, names have many characters
and are separated by commas (one may also follow the last axis of a row). `parse_spec` in `spec_parser` reads
it, `str` of a `Spec` writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Literal, TypeAlias

from ocannl.dialects.records import dataclass

RowName: TypeAlias = Literal["batch", "input", "output"]
ROW_NAMES: tuple[RowName, ...] = ("batch", "input", "output")


@dataclass(frozen=True, slots=True)
class Name:
    """An axis with a named dimension."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Fixed:
    """One position of an axis; as a part of a concatenation, a size."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: any axis."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Term:
    """`coefficient * name`; a named coefficient is a number that the spec's caller gives. A reversed term
    counts from its end: `-2*k` stands for `2 * (K - 1 - k)`.
    """

    coefficient: int | str
    name: str
    is_reversed: bool = False

    def __str__(self) -> str:
        sign = "-" if self.is_reversed else ""
        return f"{sign}{self.name}" if self.coefficient == 1 else f"{sign}{self.coefficient}*{self.name}"


class Padding(Enum):
    """Whether an affine axis reads beyond its ends; the value is the notation."""

    BY_OPERATION = "+"
    PADDED = "=+"
    VALID = "<+"


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of terms and an offset: the axis is read at that position. The first is the stride, the others
    are the window.
    """

    terms: tuple[Term, ...]
    offset: int = 0
    padding: Padding = Padding.BY_OPERATION

    def __str__(self) -> str:
        first, *rest = map(str, self.terms)
        text = " + ".join([first, *rest]).replace(" + ", f" {self.padding.value} ", 1)
        return f"{text}+{self.offset}" if self.offset else text


@dataclass(frozen=True, slots=True)
class Concat:
    """One axis that runs over its parts in turn."""

    parts: tuple[Name | Fixed, ...]

    def __str__(self) -> str:
        return "^".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class RowPart:
    """All axes of a row variable, as a factor of a product."""

    name: str

    def __str__(self) -> str:
        return f"..{self.name}.."


@dataclass(frozen=True, slots=True)
class Product:
    """One axis that is the row-major product of its factors."""

    factors: tuple[Name | RowPart, ...]

    def __str__(self) -> str:
        return "&".join(map(str, self.factors))


Axis: TypeAlias = Name | Fixed | Anything | Affine | Concat | Product


@dataclass(frozen=True, slots=True)
class RowSpec:
    """Leading axes, then those of the row variable `var`, if there is one, then trailing axes."""

    leading: tuple[Axis, ...] = ()
    var: str | None = None
    trailing: tuple[Axis, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.leading + self.trailing


@dataclass(frozen=True, slots=True)
class Slot:
    """The three rows of one operand, or of the result."""

    batch: RowSpec
    input: RowSpec
    output: RowSpec

    @property
    def rows(self) -> tuple[RowSpec, RowSpec, RowSpec]:
        return (self.batch, self.input, self.output)


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed spec. `...` has become a row variable called `batch`, `input` or `output` by its place."""

    operands: tuple[Slot, ...]
    result: Slot

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (*self.operands, self.result)

    def names_used_once(self) -> tuple[str, ...]:
        """The names of axes that occur once in the spec: reduced or broadcast on purpose, or misspelt."""
        counts = Counter(
            name for slot in self.slots for row in slot.rows for axis in row.axes for name in names_of(axis)
        )
        return tuple(name for name, count in counts.items() if count == 1)

    @property
    def operand_names(self) -> set[str]:
        """The names of axes of operands."""
        return {
            name
            for slot in self.operands
            for row in slot.rows
            for axis in row.axes
            for name in names_of(axis)
        }

    def new_names(self) -> list[str]:
        """The names that only the result has, but for parts of concatenations, which may be empty."""
        known = self.operand_names
        axes = [axis for row in self.result.rows for axis in row.axes if not isinstance(axis, Concat)]
        made = [name for axis in axes for name in names_of(axis)]
        return [name for name in dict.fromkeys(made) if name not in known]

    @property
    def new_rows(self) -> list[str]:
        """The rows of the result with `...`, where no operand has that."""
        known = {name for slot in self.operands for name in _row_variables(slot)}
        return [name for name in _row_variables(self.result) if name in ROW_NAMES and name not in known]

    @property
    def reduced_rows(self) -> list[str]:
        """The rows of operands with `...` that the result has nowhere."""
        kept = {*_row_variables(self.result)}
        found = dict.fromkeys(name for slot in self.operands for name in _row_variables(slot))
        return [name for name in found if name in ROW_NAMES and name not in kept]

    def padded(self) -> Spec:
        """The spec with padding where it leaves that to the operation."""

        def pad(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
            return tuple(_padded(axis) for axis in axes)

        def padded_slot(slot: Slot) -> Slot:
            return Slot(*(RowSpec(pad(row.leading), row.var, pad(row.trailing)) for row in slot.rows))

        return Spec(tuple(map(padded_slot, self.operands)), padded_slot(self.result))

    @property
    def structured_names(self) -> set[str]:
        """The names in products, concatenations and affine axes, and of coefficients.

        No axis of a tensor says their sizes.
        """
        axes = [axis for slot in self.slots for row in slot.rows for axis in row.axes]
        return {
            name
            for axis in axes
            if not isinstance(axis, Name)
            for name in (*names_of(axis), *coefficients_of(axis))
        }

    def __str__(self) -> str:
        return print_spec(self)


def _row_variables(slot: Slot) -> Iterator[str]:
    """The names of row variables, also of those that are factors."""
    for row in slot.rows:
        if row.var is not None:
            yield row.var
        factors = (part for axis in row.axes if isinstance(axis, Product) for part in axis.factors)
        yield from (part.name for part in factors if isinstance(part, RowPart))


def _padded(axis: Axis) -> Axis:
    if isinstance(axis, Affine) and len(axis.terms) > 1 and axis.padding is Padding.BY_OPERATION:
        return replace(axis, padding=Padding.PADDED)
    return axis


def names_of(axis: Axis) -> Iterator[str]:
    """The names of dimensions in an axis, without row variables and named coefficients."""
    match axis:
        case Name(name):
            yield name
        case Affine(terms):
            yield from (term.name for term in terms)
        case Concat(parts) | Product(parts):
            yield from (part.name for part in parts if isinstance(part, Name))
        case Fixed() | Anything():
            pass


def coefficients_of(axis: Axis) -> Iterator[str]:
    """The named coefficients of an axis."""
    if isinstance(axis, Affine):
        yield from (term.coefficient for term in axis.terms if isinstance(term.coefficient, str))


def print_spec(spec: Spec) -> str:
    """The text of a spec, which parses back to it."""
    words = (word for slot in spec.slots for row in slot.rows for axis in row.axes for word in _words(axis))
    if all(len(word) == 1 for word in words):
        return _print_slots(spec, " ")
    text = _print_slots(spec, ", ")
    return text if "," in text else _print_slots(spec, ", ", lone=",")


def _print_slots(spec: Spec, separator: str, lone: str = "") -> str:
    *operands, result = (_print_slot(slot, separator, lone) for slot in spec.slots)
    return f"{'; '.join(operands)} => {result}"


def _print_slot(slot: Slot, separator: str, lone: str) -> str:
    batch, input, output = (
        _print_row(row, place, separator, lone) for row, place in zip(slot.rows, ROW_NAMES, strict=True)
    )
    return (f"{batch} | " if batch else "") + (f"{input} -> " if input else "") + output


def _print_row(row: RowSpec, place: RowName, separator: str, lone: str) -> str:
    """`lone` follows an axis that is alone in its row."""
    items = [str(axis) for axis in row.leading]
    if row.var is not None:
        items.append("..." if row.var == place else f"..{row.var}..")
    items += [str(axis) for axis in row.trailing]
    return separator.join(items) + (lone if len(row.axes) == 1 else "")


def _words(axis: Axis) -> Iterator[str]:
    """The names and numbers in an axis."""
    match axis:
        case Name(name):
            yield name
        case Fixed(value):
            yield str(value)
        case Affine(terms, offset):
            for term in terms:
                yield from (f"{'-' if term.is_reversed else ''}{term.coefficient}", term.name)
            yield str(offset)
        case Concat(parts) | Product(parts):
            for part in parts:
                if not isinstance(part, RowPart):
                    yield from _words(part)
        case Anything():
            pass
