"""Specs as they are written, with the sizes of their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    name: str

    @property
    def text(self) -> str:
        return self.name


@dataclass(frozen=True)
class RowName:
    """A row variable; `...` is the one of the name of its row."""

    name: str

    @property
    def text(self) -> str:
        return f"..{self.name}.."


@dataclass(frozen=True)
class Fixed:
    """A position in an axis of `size` cells."""

    position: int
    size: int

    @property
    def text(self) -> str:
        return str(self.position)


@dataclass(frozen=True)
class Anything:
    size: int

    @property
    def text(self) -> str:
        return "_"


@dataclass(frozen=True)
class Product:
    factors: tuple[Name | RowName, ...]

    @property
    def text(self) -> str:
        return "&".join(factor.text for factor in self.factors)


@dataclass(frozen=True)
class Concat:
    """Integer parts are sizes."""

    parts: tuple[str | int, ...]

    @property
    def text(self) -> str:
        return "^".join(map(str, self.parts))


@dataclass(frozen=True)
class Affine:
    """`stride*over + dilation*kernel + offset`; a coefficient with a name is given by keyword."""

    over: str
    kernel: str | None
    stride: int = 1
    dilation: int = 1
    offset: int = 0
    plus: str = "+"
    stride_name: str | None = None

    @property
    def text(self) -> str:
        stride = self.stride_name or self.stride
        text = self.over if stride == 1 else f"{stride}*{self.over}"
        if self.kernel is not None:
            window = self.kernel if self.dilation == 1 else f"{self.dilation}*{self.kernel}"
            text = f"{text} {self.plus} {window}"
        return f"{text} + {self.offset}" if self.offset else text


Axis: TypeAlias = Name | Fixed | Anything | Product | Concat | Affine


@dataclass(frozen=True)
class Row:
    leading: tuple[Axis, ...] = ()
    var: RowName | None = None
    trailing: tuple[Axis, ...] = ()

    @property
    def axes(self) -> tuple[Axis | RowName, ...]:
        return (*self.leading, *([self.var] if self.var else []), *self.trailing)

    def text(self, kind: str, separator: str) -> str:
        own = RowName(kind)
        return separator.join("..." if axis == own else axis.text for axis in self.axes)


@dataclass(frozen=True)
class Slot:
    batch: Row = Row()
    input: Row = Row()
    output: Row = Row()

    @property
    def axes(self) -> list[Axis | RowName]:
        """All axes in the order of memory."""
        return [*self.batch.axes, *self.output.axes, *self.input.axes]

    def text(self, separator: str) -> str:
        batch, input, output = (
            row.text(kind, separator)
            for kind, row in (("batch", self.batch), ("input", self.input), ("output", self.output))
        )
        return (f"{batch} | " if batch else "") + (f"{input} -> " if input else "") + output


@dataclass(frozen=True)
class Case:
    """A spec, and the sizes of everything in it."""

    operands: tuple[Slot, ...]
    result: Slot
    sizes: Mapping[str, int]
    rows: Mapping[str, tuple[int, ...]]
    has_words: bool = False
    """Names have many characters, so that commas stand between axes."""
    use_padding: bool = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (*self.operands, self.result)

    @property
    def names(self) -> set[str]:
        return {name for slot in self.slots for axis in slot.axes for name in names_of(axis)}

    @property
    def text(self) -> str:
        slots = [slot.text(", " if self.has_words else " ") for slot in self.slots]
        text = "; ".join(slots[:-1]) + " => " + slots[-1]
        if not self.has_words or "," in text:
            return text
        return f"{text}," if self.result.output.axes[-1:] and not self.result.output.var else text

    def shape(self, slot: Slot) -> tuple[int, ...]:
        return self._sizes_of(slot.axes)

    def row_shapes(self, slot: Slot) -> dict[str, tuple[int, ...]]:
        rows = {"batch": slot.batch, "input": slot.input, "output": slot.output}
        return {kind: self._sizes_of(row.axes) for kind, row in rows.items()}

    def letters(self, slot: Slot) -> str:
        """The row of each axis, in the order of memory, as `oc.data` takes them."""
        rows = self.row_shapes(slot)
        return "b" * len(rows["batch"]) + "o" * len(rows["output"]) + "i" * len(rows["input"])

    def _sizes_of(self, axes: Sequence[Axis | RowName]) -> tuple[int, ...]:
        return tuple(size for axis in axes for size in self.axis_sizes(axis))

    def axis_sizes(self, axis: Axis | RowName) -> tuple[int, ...]:
        return self.rows[axis.name] if isinstance(axis, RowName) else (self.size(axis),)

    def size(self, axis: Axis) -> int:
        match axis:
            case Name(name):
                return self.sizes[name]
            case Fixed(_, size) | Anything(size):
                return size
            case Product(factors):
                return math.prod(size for factor in factors for size in self.axis_sizes(factor))
            case Concat(parts):
                return sum(map(self.part_size, parts))
            case Affine(over, None, stride, offset=offset):
                return stride * (self.sizes[over] + offset // stride)
            case Affine(over, str(kernel), stride, dilation, offset):
                if self.is_padded(axis):
                    return stride * self.sizes[over]
                span = 1 + (self.sizes[kernel] - 1) * dilation
                return stride * (self.sizes[over] - 1) + span + offset
            case Affine():
                raise AssertionError

    def part_size(self, part: str | int) -> int:
        return self.sizes[part] if isinstance(part, str) else part

    def is_padded(self, axis: Affine) -> bool:
        return axis.plus == "=+" or (axis.plus == "+" and self.use_padding)


def names_of(axis: Axis | RowName) -> list[str]:
    """The names of dimensions in an axis."""
    match axis:
        case Name(name):
            return [name]
        case Product(factors):
            return [factor.name for factor in factors if isinstance(factor, Name)]
        case Concat(parts):
            return [part for part in parts if isinstance(part, str)]
        case Affine(over, kernel):
            return [over] if kernel is None else [over, kernel]
        case Fixed() | Anything() | RowName():
            return []
