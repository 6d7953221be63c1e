"""Specs over products, concatenations and affine axes, with what they mean, point by point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Point: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Name:
    name: str

    @property
    def text(self) -> str:
        return self.name

    @property
    def names(self) -> list[str]:
        return [self.name]


@dataclass(frozen=True)
class Product:
    names: list[str]

    @property
    def text(self) -> str:
        return "&".join(self.names)


@dataclass(frozen=True)
class Joined:
    """All parts of the case's one concatenation."""

    parts: list[str | int]

    @property
    def text(self) -> str:
        return "^".join(map(str, self.parts))

    @property
    def names(self) -> list[str]:
        return []


@dataclass(frozen=True)
class Affine:
    stride: int
    over: str
    dilation: int
    kernel: str
    offset: int
    padding: str

    @property
    def text(self) -> str:
        plus = f" + {self.offset}" if self.offset else ""
        return f"{self.stride}*{self.over} {self.padding} {self.dilation}*{self.kernel}{plus}"

    @property
    def names(self) -> list[str]:
        return [self.over, self.kernel]


Axis: TypeAlias = Name | Product | Joined | Affine


@dataclass(frozen=True)
class Case:
    """One operation: the axes of each operand and of the result, and the sizes of all names."""

    operands: list[list[Axis]]
    result: list[Axis]
    sizes: dict[str, int]
    parts: list[str | int]

    @property
    def text(self) -> str:
        slots = ["".join(f"{axis.text}, " for axis in axes) for axes in (*self.operands, self.result)]
        return "; ".join(slots[:-1]) + " => " + slots[-1]

    @property
    def given(self) -> dict[str, int]:
        """The sizes that no plain axis of an operand says."""
        axes = [axis for slot in (*self.operands, self.result) for axis in slot]
        names = {name for axis in axes if not isinstance(axis, Name) for name in axis.names}
        names |= {"d"} & {axis.text for axis in self.result}
        names |= {part for part in self.parts if isinstance(part, str)}
        return {name: self.sizes[name] for name in sorted(names)}

    def shape(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        return tuple(map(self.size, axes))

    def size(self, axis: Axis) -> int:
        sizes = self.sizes
        match axis:
            case Name(name):
                return sizes[name]
            case Product(names):
                return math.prod(sizes[name] for name in names)
            case Joined(parts):
                return sum(map(self.part_size, parts))
            case Affine(stride, over, dilation, kernel, offset, "<+"):
                return stride * (sizes[over] - 1) + dilation * (sizes[kernel] - 1) + 1 + offset
            case Affine(stride, over):
                return stride * sizes[over]

    def part_size(self, part: str | int) -> int:
        return self.sizes[part] if isinstance(part, str) else part

    def position(self, axis: Axis, point: Point, active: int) -> int:
        match axis:
            case Name(name):
                return point[name]
            case Product(names):
                place = 0
                for name in names:
                    place = place * self.sizes[name] + point[name]
                return place
            case Joined(parts):
                part = parts[active]
                own = point[part] if isinstance(part, str) else point["#"]
                return sum(map(self.part_size, parts[:active])) + own
            case Affine(stride, over, dilation, kernel, offset, padding):
                before = dilation * (self.sizes[kernel] - 1) // 2 if padding == "=+" else 0
                return stride * point[over] + dilation * point[kernel] + offset - before

    def is_in(self, axes: Sequence[Axis], active: int) -> bool:
        """A slot with plain parts of the concatenation is in the spaces of those parts only."""
        joined = {part for part in self.parts if isinstance(part, str)}
        plain = {name for axis in axes for name in axis.names} & joined
        return not plain or plain == {self.parts[active]}

    def points(self, slots: Sequence[Sequence[Axis]], active: int) -> Iterator[Point]:
        names = {name for axes in slots for axis in axes for name in axis.names}
        sizes = {name: self.sizes[name] for name in sorted(names)}
        if any(isinstance(axis, Joined) for axes in slots for axis in axes):
            part = self.parts[active]
            sizes[part if isinstance(part, str) else "#"] = self.part_size(part)
        for values in itertools.product(*map(range, sizes.values())):
            yield dict(zip(sizes, values, strict=True))

    def evaluate(self, arrays: Sequence[Array], combine: str, accum: str) -> Array:
        """The result, straight from the definition."""
        neutral = 0.0 if accum == "add" else -math.inf
        outside = 0.0 if combine == "mul" and len(arrays) > 1 else neutral
        result = np.full(self.shape(self.result), neutral)
        for active in range(max(1, len(self.parts))):
            read = [i for i, axes in enumerate(self.operands) if not self.parts or self.is_in(axes, active)]
            if not read or (self.parts and not self.is_in(self.result, active)):
                continue
            margin = outside if len(read) > 1 else neutral
            for point in self.points([self.result, *(self.operands[i] for i in read)], active):
                values = [self.read(arrays[i], self.operands[i], point, active, margin) for i in read]
                value = math.prod(values) if combine == "mul" else sum(values)
                cell = tuple(self.position(axis, point, active) for axis in self.result)
                if all(0 <= i < n for i, n in zip(cell, result.shape, strict=True)):
                    result[cell] = result[cell] + value if accum == "add" else max(result[cell], value)
        return result

    def read(self, array: Array, axes: Sequence[Axis], point: Point, active: int, margin: float) -> float:
        cell = tuple(self.position(axis, point, active) for axis in axes)
        inside = all(0 <= i < n for i, n in zip(cell, array.shape, strict=True))
        return float(array[cell]) if inside else margin


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Operands and a result that share plain names, and may have other forms beside them."""
    sizes = {name: draw(st.integers(1, 3)) for name in "abcdhwok"} | {
        n: draw(st.integers(0, 3)) for n in "pq"
    }
    operands: list[list[Axis]] = [[Name("a"), Name("b")]]
    if draw(st.booleans()):
        operands.append([Name("b"), Name("c")])
    result: list[Axis] = [Name(n) for n in draw(st.sampled_from(["", "a", "ab", "ba", "d"]))]
    parts: list[str | int] = []
    if draw(st.booleans()):
        _add_product(draw, operands, result)
    if draw(st.booleans()):
        parts = _add_concat(draw, operands, result)
    if draw(st.booleans()):
        _add_window(draw, operands, result)
    shuffled = [draw(st.permutations(axes)) for axes in operands]
    return Case(shuffled, draw(st.permutations(result)), sizes, parts)


def _add_product(draw: st.DrawFn, operands: list[list[Axis]], result: list[Axis]) -> None:
    split: list[Axis] = [Name("h"), Name("w")]
    joined: list[Axis] = [Product(draw(st.permutations(["h", "w"])))]
    operands[0] += draw(st.sampled_from([split, joined]))
    result += draw(st.sampled_from([split, joined, []]))


def _add_concat(draw: st.DrawFn, operands: list[list[Axis]], result: list[Axis]) -> list[str | int]:
    parts: list[str | int] = draw(st.sampled_from([["p", "q"], ["p", 2], [1, "p", "q"], ["q", 1, "p"]]))
    joined = Joined(parts)
    # Integer parts of two axes have nothing to do with each other.
    both = ["keep"] if all(isinstance(part, str) for part in parts) else []
    form = draw(st.sampled_from(["join", "select", "reduce", "pad", *both]))
    operands[0].append(Name("p") if form in ("join", "pad") else joined)
    if form == "join" and len(operands) > 1 and "q" in parts:
        operands[1].append(Name("q"))
    if form != "reduce":
        result.append(Name("p") if form == "select" else joined)
    return parts


def _add_window(draw: st.DrawFn, operands: list[list[Axis]], result: list[Axis]) -> None:
    small = st.integers(1, 3)
    padding = draw(st.sampled_from(["<+", "=+"]))
    offset = draw(st.integers(0, 1)) if padding == "<+" else 0
    window = Affine(draw(small), "o", draw(small), "k", offset, padding)
    if draw(st.booleans()):
        operands[0].append(window)
        result.append(Name("o"))
    else:
        operands[0].append(Name("o"))
        result.append(window)
    if len(operands) > 1 and draw(st.booleans()):
        operands[1].append(Name("k"))
