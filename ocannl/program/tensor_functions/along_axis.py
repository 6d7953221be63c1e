"""Functions along one axis, by its number in the order of memory: running sums, moved elements, norms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Literal, cast, overload

from xdsl.dialects.builtin import f32, i32

from ocannl.dialects.scalar.accumulation import ORDERED, neutral_number
from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import flag, integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number
from ocannl.program.eager.made_once import made_once
from ocannl.program.expressions import apply, convert, pointwise, positions, spec_apply
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.indexing.tensor_parts import ALL, part_of
from ocannl.program.memory.memory_axes import MemoryAxes, Slot
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.types.casts import floats
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value

REVERSED = slice(None, None, -1)
# What is longer is accumulated in blocks: of the first of these sizes that divides it.
SHORT, BLOCKS = 64, (16, 8, 12, 10, 20, 25, 15, 9)

DIRECT = ("add", "mul", "max", "min")
"""Accumulations that are made anew for each element of a block."""
FEW = 8
"""Up to so many blocks are accumulated so, too."""


@dataclass(frozen=True, slots=True)
class Along:
    """One axis of a value, and the slot of a spec with all of its axes."""

    value: Value
    slot: Slot
    name: str
    size: int

    @staticmethod
    def of(t: TensorLike, axis: int) -> Along:
        """Raises `ShapeError` where the axis or its size is not known, `IndexError` where there is none."""
        value = as_tensor(t).ir_value
        axes = MemoryAxes(value)
        place = axes.place(integer(axis, "the number of an axis", least=None))
        size = axes.known_size(place)
        slot = axes.slot("x")
        return Along(value, slot, slot.at(place), size)

    def with_axis(self, axis: str) -> Slot:
        """The slot with another axis in place of this one."""
        return self.slot.with_axes({self.name: (axis,)})

    def running(self, accum: str, combine: str | None = None) -> Value:
        """Accumulations of all elements up to each one. Another operator may `combine` them; it has the
        neutral element of `accum`. Small floats are combined in f32.
        """
        element = element_now(self.value)
        if element == BOOL and accum in ("add", "mul"):  # Truth values count, as in sums.
            return replace(self, value=convert(self.value, i32)).running(accum, combine)
        is_rounded = small_format(element) is not None and (combine or accum) not in ORDERED
        value = convert(self.value, f32) if is_rounded else self.value
        found = replace(self, value=value).scanned(accum, combine or accum)
        return convert(found, element) if is_rounded else found

    def scanned(self, accum: str, combine: str) -> Value:
        """Inside of blocks, and over their ends, which are combined with the blocks behind them (Blelloch,
        "Prefix sums and their applications", 1990).
        """
        is_direct = accum == combine and accum in DIRECT
        if is_direct and self.size <= FEW:
            return self.direct(accum)
        if self.size <= SHORT:
            return self.doubled(accum, combine)
        block = next((size for size in BLOCKS if not self.size % size), BLOCKS[0])
        whole = self.extended(-self.size % block, accum)
        apart, count = self.slot.with_axes({self.name: ("block", "place")}), whole.size // block
        split = spec_apply(
            f"{self.with_axis('block&place')} => {apart}",
            accum,
            "mul",
            [whole.value],
            [("place", Dim(block))],
        )
        parts = Along(split, apart, "place", block)
        inside = parts.direct(accum) if is_direct else parts.doubled(accum, combine)
        blocks = self.with_axis("block")
        last = apart.with_axes({"place": (str(block - 1),)})
        ends = spec_apply(f"{last} => {blocks}", accum, "mul", [inside], [])
        before = Along(Along(ends, blocks, "block", count).scanned(accum, combine), blocks, "block", count)
        term = App(combine, (Arg(0), Arg(1)))
        operands = [before.moved(1, accum), inside]
        found = apply(term, operands, logic=f"{blocks}; {apart} => {apart}")
        merged = spec_apply(f"{apart} => {self.with_axis('block&place')}", accum, "mul", [found], [])
        return replace(whole, value=merged).first(self.size, accum)

    def direct(self, accum: str) -> Value:
        """Each accumulated by itself: a vector of elements adds each one before them, or the neutral one."""
        neutral = Const(neutral_number(accum, element_now(self.value)))
        term = App("where", (App("le", (Arg(1), Arg(2))), Arg(0), neutral))
        numbers = positions(Dim(self.size))
        logic = f"{self.slot}; {self.name},; last, => {self.with_axis('last')}"
        return apply(term, [self.value, numbers, numbers], logic=logic, accum=accum)

    def doubled(self, accum: str, combine: str) -> Value:
        """By elements 1, 2, 4, ... apart (Hillis and Steele, "Data parallel algorithms", 1986)."""
        value, apart = self.value, 1
        while apart < self.size:
            value = pointwise(combine, [replace(self, value=value).moved(apart, accum), value])
            apart *= 2
        return value

    def moved(self, by: int, accum: str) -> Value:
        """With each element so many places further, behind neutral elements."""
        size = self.size - by
        spec = f"{self.with_axis('kept')} => {self.with_axis(f'{by}^kept')}"
        return spec_apply(spec, accum, "mul", [self.first(size, accum)], [("kept", Dim(size))])

    def first(self, size: int, accum: str) -> Value:
        """The first elements."""
        if size == self.size:
            return self.value
        spec = f"{self.with_axis('kept^cut')} => {self.with_axis('kept')}"
        dims = [("kept", Dim(size)), ("cut", Dim(self.size - size))]
        return spec_apply(spec, accum, "mul", [self.value], dims)

    def extended(self, by: int, accum: str) -> Along:
        """With so many neutral elements behind its own."""
        if not by:
            return self
        spec = f"{self.with_axis('kept')} => {self.with_axis(f'kept^{by}')}"
        value = spec_apply(spec, accum, "mul", [self.value], [("kept", Dim(self.size))])
        return replace(self, value=value, size=self.size + by)

    def last_position(self, extremes: Value) -> Value:
        """The last position that each running extreme had up to there; that of NaN, if there is one."""
        x, extreme = Arg(0), Arg(1)
        attained = App("or", (App("eq", (x, extreme)), App("ne", (x, x))))
        term = App("where", (attained, Arg(2), Const(0)))
        logic = f"{self.slot}; {self.slot}; {self.name}, => {self.slot}"
        operands = [self.value, extremes, positions(Dim(self.size))]
        return replace(self, value=apply(term, operands, logic=logic, accum="add")).running("max")


def along_axis(t: TensorLike, axis: int, how: tuple[Hashable, ...], make: Callable[[Along], Value]) -> Tensor:
    """The tensor that is made along one axis; in eager mode the one that was made in the same way, `how`."""
    value, number = as_tensor(t).ir_value, integer(axis, "the number of an axis", least=None)
    made = made_once([value], (number, *how), lambda: make(Along.of(Tensor(value), number)))
    return Tensor(keep_all_axes(made, value))


def _running(t: TensorLike, axis: int, accum: str, combine: str | None = None) -> Tensor:
    return along_axis(t, axis, ("running", accum, combine), lambda along: along.running(accum, combine))


def _extremes(t: TensorLike, axis: int, accum: str, return_indices: bool) -> Tensor | tuple[Tensor, Tensor]:
    extremes = _running(t, axis, accum)
    if not return_indices:
        return extremes
    value = extremes.ir_value
    return extremes, along_axis(t, axis, ("last", value), lambda along: along.last_position(value))


def _key(axis: int, item: object) -> list[object]:
    """The key of a part that has an item at one axis."""
    axis = integer(axis, "the number of an axis", least=None)
    return [*[ALL] * axis, item] if axis >= 0 else [..., item, *[ALL] * (-axis - 1)]


def cumsum(t: TensorLike, axis: int = -1) -> Tensor:
    """The sums of the elements up to each one along an axis, added in blocks."""
    return _running(t, axis, "add")


def cumprod(t: TensorLike, axis: int = -1) -> Tensor:
    """The products of the elements up to each one along an axis, as `oc.cumsum`."""
    return _running(t, axis, "mul")


def logcumsumexp(t: TensorLike, axis: int = -1) -> Tensor:
    """The logarithms of the sums of exponentials of the elements up to each one along an axis, without
    overflow; as `oc.cumsum`.
    """
    return _running(t, axis, "max", "logaddexp")


@overload
def cummax(t: TensorLike, axis: int = -1) -> Tensor: ...
@overload
def cummax(t: TensorLike, axis: int = -1, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...


def cummax(t: TensorLike, axis: int = -1, *, return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """The greatest of the elements up to each one along an axis, as `oc.cumsum`. With `return_indices`, their
    positions too, which have no gradient; of equal elements the last one's, as in PyTorch.
    """
    return _extremes(t, axis, "max", flag(return_indices, "return_indices"))


@overload
def cummin(t: TensorLike, axis: int = -1) -> Tensor: ...
@overload
def cummin(t: TensorLike, axis: int = -1, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...


def cummin(t: TensorLike, axis: int = -1, *, return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """The least of the elements up to each one along an axis, and their positions, as `oc.cummax`."""
    return _extremes(t, axis, "min", flag(return_indices, "return_indices"))


def unfold(t: TensorLike, axis: int, size: int, step: int = 1) -> Tensor:
    """The windows of `size` elements along an axis, `step` apart: in place of the axis stand the windows, and
    the elements of each along a new last axis, as by PyTorch's `Tensor.unfold`. What is left behind the last
    whole window is in none. Gradients are added up.

    Raises `ArgumentError` for a window that is larger than the axis.
    """
    along = Along.of(t, axis)
    size, step = integer(size, "the size of a window"), integer(step, "a step")
    if size > along.size:
        raise ArgumentError(f"there are {along.size} elements along the axis, found windows of {size}")
    used = (along.size - size) // step * step + size
    value = part_of(along.value, _key(axis, slice(used)))
    windows = along.with_axis("window")
    last = windows.axes[-1]
    spec = f"{along.with_axis(f'{step}*window <+ element')} => {windows.with_axes({last: (last, 'element')})}"
    return Tensor(spec_apply(spec, "add", "mul", [value], [("element", Dim(size))]))


def flip(t: TensorLike, axis: int | Sequence[int] = -1) -> Tensor:
    """The elements in reverse order along an axis, or along several. Raises `ArgumentError` for an axis that
    is given twice.
    """
    tensor, axes = as_tensor(t), _each(axis)
    if len({Along.of(tensor, each).name for each in axes}) < len(axes):
        raise ArgumentError(f"an axis is flipped once, found {axis!r}")
    for each in axes:
        key = _key(each, REVERSED)
        tensor = along_axis(tensor, each, ("flip",), lambda along, key=key: part_of(along.value, key))
    return tensor


def roll(t: TensorLike, shift: int | Sequence[int], axis: int | Sequence[int] = -1) -> Tensor:
    """The elements moved `shift` positions along an axis; those that leave it come in at the other end.
    Several axes have a shift each, or all the same. Raises `ArgumentError` for another number of shifts.
    """
    axes = _each(axis)
    shifts = _each(shift)
    if not isinstance(shift, list | tuple):
        shifts = [*shifts] * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"each axis has a shift: {len(axes)} axes, found {len(shifts)} shifts")
    tensor = as_tensor(t)
    for each, by in zip(axes, shifts, strict=True):
        shift = integer(by, "a shift", least=None)
        tensor = along_axis(tensor, each, ("roll", shift), lambda along, by=shift: _rolled(along, by))
    return tensor


def _each(given: int | Sequence[int]) -> Sequence[int]:
    return given if isinstance(given, list | tuple) else [cast("int", given)]


def _rolled(along: Along, shift: int) -> Value:
    tail = shift % max(along.size, 1)
    if not tail:
        return along.value
    spec = f"{along.with_axis('head^tail')} => {along.with_axis('tail^head')}"
    dims = [("head", Dim(along.size - tail)), ("tail", Dim(tail))]
    return spec_apply(spec, "add", "mul", [along.value], dims)


def norm(t: TensorLike, axis: int | None = -1, *, ord: float = 2, keep: bool = False) -> Tensor:
    """The norm along an axis, or of all elements for None: Euclidean, or for `ord` 1 the sum, for infinity
    the greatest and for minus infinity the least of absolute values, for 0 the number of elements that are
    not 0, and for another p the sum of their powers p, to the power 1 / p. The gradient of a Euclidean norm
    of 0 is 0.
    """
    value = as_tensor(t).ir_value
    if axis is not None:
        MemoryAxes(value).place(integer(axis, "the number of an axis", least=None))
    if not is_number(ord) or isnan(ord):
        raise ArgumentError(f"the order of a norm is a number, found {ord!r}")
    how, order = ("norm", axis, ord, flag(keep, "keep")), cast("float", ord)
    return Tensor(made_once([value], how, lambda: _norm(floats(Tensor(value)), axis, order, keep).ir_value))


def _norm(tensor: Tensor, axis: int | None, ord: float, keep: bool) -> Tensor:
    if ord == 1:
        return abs(tensor).sum(axis, keep)
    if ord == inf:
        return abs(tensor).max(axis, keep)
    if ord == -inf:
        return abs(tensor).min(axis, keep)
    if ord == 0:
        return Tensor(pointwise("where", [pointwise("ne", [tensor.ir_value, 0.0]), 1.0, 0.0])).sum(axis, keep)
    if ord != 2:
        return (abs(tensor) ** ord).sum(axis, keep) ** (1 / ord)
    squares = (tensor * tensor).sum(axis, keep).ir_value
    is_zero = App("eq", (Arg(0), Const(0.0)))
    root: Term = App("sqrt", (App("where", (is_zero, Const(1.0), Arg(0))),))
    return Tensor(apply(App("where", (is_zero, Const(0.0), root)), [squares], logic="."))
