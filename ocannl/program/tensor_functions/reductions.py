"""Reductions over axes: sums, means, extremes and their positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from math import prod
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, DimTerm, RowKind
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.made_once import made_once
from ocannl.program.expressions import apply, pointwise, positions, size_of
from ocannl.program.indexing.new_axes import keep_new_axes, keep_some_axes, known_rows
from ocannl.program.location import here
from ocannl.program.memory.memory_axes import MemoryAxes, Slot
from ocannl.program.tracing.padded_axes import note_reduction
from ocannl.program.types.floats import float_value
from ocannl.program.values import OF_NOTHING, Value

Axes: TypeAlias = RowKind | int | Sequence[int] | None
"""All axes, those of a row, or some by their numbers in the order of memory."""
TensorT = TypeVar("TensorT")
X, MEAN, POSITION = Arg(0), Arg(1), Arg(2)


class Reduction:
    """The axes of a value that are reduced, and those that are left, as slots of a spec.

    Attributes:
        reduced: the names of reduced axes; that of a row variable stands for all of its axes.
        dims: the sizes of the reduced axes, and those of the axes that are kept with one element.
    """

    def __init__(self, value: Value, axes: Axes, keep: bool) -> None:
        self.value = value
        self.axes = axes
        self.keep = keep
        known = MemoryAxes(self.value)
        if self.keep and (self.axes is None or isinstance(self.axes, str)):
            known.close_rows(self._rows())
        self.source = known.slot()
        if self.axes is None or isinstance(self.axes, str):
            rows = [self.source.rows[kind] for kind in self._rows()]
            self.reduced: list[str] = [axis for row in rows for axis in row]
        else:
            numbers = [self.axes] if not isinstance(self.axes, list | tuple) else self.axes
            if any(hasattr(number, "ir_value") for number in numbers):
                two = "oc.maximum(a, b), oc.minimum(a, b), a + b and a * b are of two, point by point"
                raise ArgumentError(f"a reduction is of one tensor: {two}")
            places = [known.place(integer(n, "the number of an axis", least=None)) for n in numbers]
            if len(set(places)) < len(places):
                raise ArgumentError(f"an axis is reduced once, found the axes {self.axes}")
            self.source = known.slot()
            self.reduced = [self.source.at(place) for place in places]
        sizes = dict(zip(self.source.axes, known.dims, strict=True))
        self.dims: dict[str, DimTerm] = {
            _name(axis): sizes[axis] or graph.fresh_dim() for axis in self.reduced
        }
        self.left = self.source.with_axes(dict.fromkeys(self.reduced, ()))
        self.result = self.left
        if self.keep:
            self.result = self.source.with_axes({axis: (f"k{axis}",) for axis in self.reduced})
            self.dims |= {f"k{axis}": Dim(1) for axis in self.reduced}

    def _rows(self) -> Sequence[RowKind]:
        if self.axes is None:
            return ROW_KINDS
        for kind in ROW_KINDS:
            if self.axes == kind:
                return [kind]
        raise ArgumentError(f'a row is "batch", "input" or "output", found {self.axes!r}')

    def reduce(
        self, accum: str, term: Term = X, *others: tuple[Value, Slot | str], last: bool = True
    ) -> Value:
        """An accumulation of a term over the reduced axes, of the value and others with slots. That of the
        result keeps axes, if it is the `last`.
        """
        slots = [str(slot) for slot in (self.source, *(slot for _, slot in others))]
        logic = f"{'; '.join(slots)} => {self.result if last else self.left}"
        used = {name: dim for name, dim in self.dims.items() if name in logic}
        operands = [self.value, *(value for value, _ in others)]
        return apply(term, operands, logic=logic, accum=accum, dims=[*used.items()])

    @property
    def sizes(self) -> list[int | None]:
        """The sizes of the reduced axes, as far as they are known; those with a basis may be padded."""
        dims = [self.dims[_name(axis)] for axis in self.reduced]
        return [dim.size if isinstance(dim, Dim) and dim.basis is None else None for dim in dims]

    def check_elements(self, so: str) -> None:
        """Raises `ShapeError` where it is known that there are no elements; `so` says what follows."""
        if 0 in self.sizes:
            raise ShapeError(here(no_elements(self.value, so)))

    def divided(self, total: Value, less: int = 0) -> Value:
        """A total divided by the number of elements that it has, less some, and at least by 0."""
        sizes = [size for size in self.sizes if size is not None]
        if len(sizes) == len(self.reduced):
            return pointwise("div", [total, float(max(prod(sizes) - less, 0))])
        count = size_of(self.dims[_name(self.reduced[0])])
        for axis in self.reduced[1:]:
            count = pointwise("mul", [count, size_of(self.dims[_name(axis)])])
        if less:
            count = pointwise("max", [pointwise("sub", [count, float(less)]), 0.0])
        return pointwise("div", [total, count])

    def variance(self, ddof: int) -> Value:
        """The mean squared difference from the mean."""
        mean = self.divided(self.reduce("add", last=False))
        difference = App("sub", (X, MEAN))
        squares = self.reduce("add", App("mul", (difference, difference)), (mean, self.left))
        return self.divided(squares, ddof)

    def first(self, accum: str) -> Value:
        """The number of the first element, in the order of memory, that attains an extreme, or that is no
        number. Raises `ShapeError` where there are no elements.
        """
        none = "none is first"
        self.check_elements(none)
        extreme = self.reduce(accum, last=False)
        dims = [self.dims[_name(axis)] for axis in self.reduced]
        others: list[tuple[Value, Slot | str]] = [(extreme, self.left)]
        number: Term = Const(0)
        for place, axis in enumerate(self.reduced):
            stride = prod(dim.size for dim in dims[place + 1 :] if isinstance(dim, Dim))
            others.append((positions(self.dims[_name(axis)]), f"{_name(axis)},"))
            step = Arg(2 + place) if stride == 1 else App("mul", (Arg(2 + place), Const(stride)))
            number = step if place == 0 else App("add", (number, step))
        attained = App("or", (App("eq", (X, Arg(1))), App("ne", (X, X))))
        found = self.reduce("min", App("where", (attained, number, Const(float("inf")))), *others)
        needs_elements(found, none)
        return found


def needs_elements(reduced: Value, so: str) -> None:
    """Notes that a reduction is an error where there turn out to be no elements; `so` says what follows."""
    reduced.op.attributes[OF_NOTHING] = StringAttr(so)


def no_elements(value: SSAValue, so: str) -> str:
    """The message of a reduction of nothing; `so` says what follows."""
    return f"`{tensor_name(value)}` has no elements there, so {so}"


def without_elements(op: Operation) -> str | None:
    """The message where an operation that `needs_elements` has none; None of another."""
    so = op.attributes.get(OF_NOTHING)
    return no_elements(operands_of(op)[0], so.data) if isinstance(so, StringAttr) else None


def _name(axis: str) -> str:
    """The name of an axis, or of a row variable."""
    return axis.strip(".")


class Reducible(ABC, Generic[TensorT]):
    """Reductions as methods. `axes` are all axes by default; else a row's name ("batch", "input", "output"),
    or numbers of axes in the order of memory. With `keep`, reduced axes stay, with one element.

    All raise `ShapeError` where the axes are not known, and `IndexError` where there are no such.
    """

    __slots__ = ()

    @abstractmethod
    def _value(self) -> Value: ...

    @abstractmethod
    def _of(self, value: Value) -> TensorT: ...

    def _reduced(self, accum: str, axes: Axes, keep: bool, none: str | None = None) -> TensorT:
        """An accumulation; `none` says what is missing where there are no elements, if that is an error."""
        value = self._value()

        def made() -> Value:
            reduction = Reduction(value, axes, keep)
            if none is not None:
                reduction.check_elements(none)
            return reduction.reduce(accum)

        reduced = _once(value, axes, keep, ("reduced", accum), made)
        if none is not None:
            needs_elements(reduced, none)
        note_reduction(reduced.op, reduced)
        return self._of(reduced)

    def _first(self, accum: str, axes: Axes, keep: bool) -> TensorT:
        value = self._value()

        def made() -> Value:
            return Reduction(value, _in_order(value, axes), keep).first(accum)

        first = _once(value, axes, keep, ("first", accum), made)
        note_reduction(first.op, first)
        return self._of(first)

    def sum(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The sum."""
        return self._reduced("add", axes, keep)

    def prod(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The product."""
        return self._reduced("mul", axes, keep)

    def max(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The greatest element. Its gradient goes to each element that attains it. Raises `ShapeError` where
        there are none; if sizes are not known yet, when it is first used.
        """
        return self._reduced("max", axes, keep, "none is greatest")

    def min(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The least element, as `max`."""
        return self._reduced("min", axes, keep, "none is least")

    def any(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """1 where an element is not 0, else 0."""
        return self._reduced("or", axes, keep)

    def all(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """1 where no element is 0, else 0."""
        return self._reduced("and", axes, keep)

    def mean(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The mean."""
        value = self._value()

        def made() -> Value:
            reduction = Reduction(float_value(value), axes, keep)
            return reduction.divided(reduction.reduce("add"))

        return self._of(_once(value, axes, keep, ("mean",), made))

    def var(self, axes: Axes = None, keep: bool = False, *, ddof: int = 0) -> TensorT:
        """The variance; the sum of squares is divided by the number of elements less `ddof`."""
        return self._of(self._variance(axes, keep, ddof))

    def std(self, axes: Axes = None, keep: bool = False, *, ddof: int = 0) -> TensorT:
        """The standard deviation, the root of `var`."""
        variance = self._variance(axes, keep, ddof)
        return self._of(keep_new_axes(pointwise("sqrt", [variance]), [variance]))

    def _variance(self, axes: Axes, keep: bool, ddof: int) -> Value:
        value = self._value()

        def made() -> Value:
            return Reduction(float_value(value), axes, keep).variance(ddof)

        return _once(value, axes, keep, ("variance", ddof), made)

    def argmax(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The position of the first greatest element: along one axis, or among the elements of several in the
        order of memory. It has no gradient.
        """
        return self._first("max", axes, keep)

    def argmin(self, axes: Axes = None, keep: bool = False) -> TensorT:
        """The position of the first least element, as `argmax`."""
        return self._first("min", axes, keep)


def _once(
    value: Value, axes: Axes, keep: bool, how: tuple[Hashable, ...], make: Callable[[], Value]
) -> Value:
    """A reduction, which eager mode finds by its axes; a list of them may change."""
    is_plain = type(axes) in (str, int, NoneType)
    reduced = made_once([value], (axes, keep, *how), make) if is_plain else make()
    if value.new_axes or value.guessed_axes:
        keep_some_axes(reduced, value, _sources(value, axes, keep))
    return reduced


def _sources(value: Value, axes: Axes, keep: bool) -> Sequence[int]:
    """The axes that a reduction leaves, from the last one on and counted from the last."""
    rows = known_rows(value)
    numbers = range(-1, -len(rows) - 1, -1)
    if keep or not rows:
        return numbers
    if axes is None or isinstance(axes, str):
        return [number for number in numbers if rows[number] != (axes or rows[number])]
    given: Sequence[Any] = axes if isinstance(axes, list | tuple) else [axes]
    reduced = {int(axis) % len(rows) - len(rows) for axis in given}
    return [number for number in numbers if number not in reduced]


def _in_order(value: Value, axes: Axes) -> Axes:
    """Axes whose sizes are known, so that their elements can be numbered."""
    if isinstance(axes, int):
        return axes
    known = MemoryAxes(value)
    known.close()
    if isinstance(axes, list | tuple):
        return [*axes]
    return [n for n, place in enumerate(known.places) if axes is None or place.row == axes]
