"""Axes that line up with those of other operands point by point as in NumPy: new ones, as in `t[:, None]`,
those of ids that choose in several rows, and those of arguments that have rows by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from string import ascii_lowercase
from typing import TypeVar

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import Dim, RowKind, Shape
from ocannl.dialects.texpr import DataOp
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import expressions, graph
from ocannl.program.expressions import spec_apply
from ocannl.program.location import user_location, warn_at
from ocannl.program.memory.memory_axes import MEMORY_ORDER, MemoryAxes, Slot
from ocannl.program.types.dtypes import dtype_of, is_integer
from ocannl.program.types.final_types import element_now, shape_now
from ocannl.program.values import Value, is_memory

Operand = TypeVar("Operand")
LAST = frozenset({-1})
BATCH: RowKind = "batch"


def with_new_axis(value: Value, at: int) -> Value:
    """A value with a new axis of size 1 before the axis `at`, counted in the order of memory.

    The new axis is in the row of the axis before it; at the front it is a batch axis. Where all axes before
    it are batch axes, it is an output axis, or, for ids, which are integers, one more batch axis.
    """
    axes = MemoryAxes(value)
    places, slot = axes.places, axes.slot()
    is_last = at == len(places)
    if is_last and value.guessed_axes == LAST:
        rows: dict[RowKind, list[str]] = {"batch": slot.axes, "output": ["new"], "input": []}
    else:
        rows = {kind: list(names) for kind, names in slot.rows.items()}
        if not places or (is_last and places[-1].row == "batch" and not _are_ids(value)):
            rows["output"] = ["new"]
        elif at == 0:
            rows["batch"].insert(0, "new")
        else:
            before = places[at - 1]
            rows[before.row].insert(before.number + 1, "new")
    result = spec_apply(f"{slot} => {Slot(rows)}", "add", "mul", [value], [("new", Dim(1))])
    from_end = at - len(places) - 1
    result.new_axes = frozenset({from_end, *_shifted(value.new_axes, from_end)})
    result.guessed_axes, result.is_argument = _shifted(value.guessed_axes, from_end), value.is_argument
    return result


def _are_ids(value: Value) -> bool:
    return is_integer(dtype_of(element_now(value)))


def _shifted(axes: frozenset[int], new: int) -> frozenset[int]:
    """The numbers of axes, counted from the last, after one was added as number `new`."""
    return frozenset({axis - 1 if axis <= new else axis for axis in axes})


def pointwise(op: str, operands: Sequence[Value | float]) -> Value:
    """`expressions.pointwise` of operands that are lined up."""
    if not any(o.new_axes or o.guessed_axes for o in operands if isinstance(o, Value)):
        return expressions.pointwise(op, operands)
    operands = lined_up(operands)
    values = [operand for operand in operands if isinstance(operand, Value)]
    return keep_new_axes(expressions.pointwise(op, operands), values)


def lined_up(operands: Sequence[Value | Operand]) -> list[Value | Operand]:
    """Operands of a pointwise operation, with axes moved to other rows so that they line up as in NumPy, from
    the last on in the order of memory. Operands of unknown shape stay as they are.

    If an operand has new axes, these are moved to the rows of the axes that they stand above, and so are
    axes in whose rows the operands differ. If none has, axes of ids that choose in several rows are moved
    where no other operand has batch axes. An argument of a function whose rows were guessed gets batch axes
    only beside a value with batch axes only and the same sizes, and so do its parts and reductions; for other
    data a warning says so instead, as it does beside one that has an output axis of size 1, too.
    """
    values = [operand for operand in operands if isinstance(operand, Value)]
    if any(value.new_axes for value in values):
        return _in_common_rows(operands, values)
    if any(value.guessed_axes for value in values):
        return _with_guesses(operands, values)
    return list(operands)


def _in_common_rows(operands: Sequence[Value | Operand], values: Sequence[Value]) -> list[Value | Operand]:
    rows = _Rows([known for known in map(_known, values) if known is not None])
    return [rows.moved(operand) if isinstance(operand, Value) else operand for operand in operands]


def _with_guesses(operands: Sequence[Value | Operand], values: Sequence[Value]) -> list[Value | Operand]:
    """The operands, of which some values have guessed rows, but none has new axes."""
    sizes = {known.sizes for known in map(_known_batch, values) if known is not None}
    if not sizes:
        for value in values:
            _warn_beside_column(value, values)
        return list(operands)
    found = [_beside(operand, sizes) if isinstance(operand, Value) else operand for operand in operands]
    values = [operand for operand in found if isinstance(operand, Value)]
    if all(_is_chosen(value) or not graph.known_shape(value).batch.axes for value in values):
        return _in_common_rows(found, values)
    for value in values:
        _warn_of_pairs(value, sizes, "|")
    return found


def lined_up_with(memory: Value, source: Value) -> Value:
    """The new value of memory, lined up with it."""
    return lined_up([memory, source])[1]


def keep_new_axes(result: Value, operands: Sequence[Value]) -> Value:
    """Notes at the result of a pointwise operation which of its axes are new, and which rows are guessed: an
    axis is new if it is so in all operands that have it, and its row is guessed if it is so in these, and
    all operands have guessed rows or no such axis.
    """
    if result.new_axes or result.guessed_axes:  # it was made before, of the same operands
        return result
    if any(operand.new_axes for operand in operands):
        new = frozenset[int]().union(*[operand.new_axes for operand in operands])
        known = [_known(operand) for operand in operands]
        result.new_axes = new.difference(*[axes.old for axes in known if axes is not None])
    guessed = frozenset[int]().union(*[operand.guessed_axes for operand in operands])
    if guessed and all(operand.guessed_axes or _has_no_say(operand, guessed) for operand in operands):
        result.guessed_axes = guessed
        if any(operand.guessed_axes not in (guessed, frozenset()) for operand in operands):
            # Asked only here, as it may take an inference of shapes.
            known = [_known(operand) for operand in operands]
            result.guessed_axes -= frozenset[int]().union(*[axes.firm for axes in known if axes is not None])
        result.is_argument = all(operand.is_argument for operand in operands if operand.guessed_axes)
    return result


def keep_some_axes(result: Value, value: Value, sources: Iterable[int | None]) -> Value:
    """Notes at a part or reduction of a value which of its axes are new, and which rows are guessed.
    `sources` are the axes of the value that those of the result come from, the last first and counted from
    the last; None for an axis that comes from none.
    """
    numbers = {-1 - at: source for at, source in enumerate(sources)}
    result.new_axes |= {number for number, source in numbers.items() if source in value.new_axes}
    result.guessed_axes |= {number for number, source in numbers.items() if source in value.guessed_axes}
    result.is_argument = value.is_argument
    return result


def keep_all_axes(result: Value, value: Value) -> Value:
    """Notes at what has the axes of a value which of these are new, and which rows are guessed."""
    result.new_axes, result.guessed_axes = value.new_axes, value.guessed_axes
    result.is_argument = value.is_argument
    return result


def keep_last_guess(result: Value, value: Value) -> None:
    """Notes at what has the last axis of a value whether its row is guessed."""
    result.guessed_axes, result.is_argument = value.guessed_axes & LAST, value.is_argument


def guess_last_axis(result: Value, value: Value) -> Value:
    """Notes at another form of a value that its last axis is in the output row since nothing said a row."""
    result.guessed_axes, result.is_argument = LAST, value.is_argument
    return result


def _has_no_say(value: Value, guessed: frozenset[int]) -> bool:
    """Whether a value says nothing about the rows of guessed axes, as it has none or one of size 1."""
    last = graph.known_shape(value).memory_axes[-1:]
    if last and isinstance(last[0], Dim) and last != (Dim(1),):  # told without an inference of shapes
        return False
    known = _known(value)
    return known is not None and all(known.sizes[place:][:1] in ((), (1,)) for place in guessed)


def _beside(value: Value, sizes: set[Sequence[int | None]]) -> Value:
    """An argument with guessed rows as it stands beside batch axes."""
    known = _known(value) if value.is_argument and value.guessed_axes else None
    if known is None or not known.meets(sizes):
        return value
    rows: list[RowKind] = [BATCH for _ in known.rows]
    return _in_rows(value, rows)


def _is_chosen(value: Value) -> bool:
    """Whether the last axis is one of ids that choose in several rows, or comes from such."""
    known = _known_batch(value) if -1 in value.guessed_axes else None
    return known is not None


def _warn_beside_column(value: Value, others: Sequence[Value]) -> None:
    """Warns where data meet what has one output, as a model of one has, for each of as many rows."""
    own = graph.known_shape(value).memory_axes if value.guessed_axes else ()
    for other in others if own else ():
        batch = graph.known_shape(other).batch.axes[-len(own) :]
        if not other.guessed_axes and list(batch) == list(own):  # the shape of few values has to be found
            column = _known(other)
            if column is not None and column.is_column:
                ones = ["1"] * column.rows.count("output")
                _warn_of_pairs(value, {column.sizes[: -len(ones)]}, f"|{','.join(ones)}")


def _warn_of_pairs(value: Value, sizes: set[Sequence[int | None]], rest: str) -> None:
    """Warns where data, which end in an output axis, and batch axes of the same sizes give all pairs. `rest`
    is the end of the shape that has these.
    """
    data = _known(value) if value.guessed_axes else None
    if data is None or set(data.rows) == {BATCH} or not data.meets(sizes):
        return
    found, letters = ",".join(map(str, data.sizes)), "b" * len(data.rows)
    way = f"oc.data(..., axes={letters!r})"
    if not isinstance(value.op, DataOp):
        names = " ".join(ascii_lowercase[: len(letters)])
        way = f"oc.rearrange(t, '{names} -> {names}', axes={letters!r})"
    elif value.is_argument:
        way = f"oc.function(axes={{{tensor_name(value)!r}: {letters!r}}})"
    warn_at(
        user_location(),
        f"`{tensor_name(value)}` ({data.shape}) meets batch axes of the same sizes ({found}{rest}): all "
        f"pairs are computed; {way} has batch axes, and t[:, None] says that pairs are meant",
    )


def _in_rows(value: Value, rows: Sequence[RowKind]) -> Value:
    """The value with axes in other rows."""
    axes = MemoryAxes(value)
    axes.close_rows(MEMORY_ORDER)
    slot = axes.slot()
    names: dict[RowKind, list[str]] = {kind: [] for kind in MEMORY_ORDER}
    for kind, name in zip(rows, slot.axes, strict=True):
        names[kind].append(name)
    return spec_apply(f"{slot} => {Slot(names)}", "add", "mul", [value], ())


@dataclass(frozen=True)
class _Known:
    """The rows of the axes of a value in the order of memory."""

    value: Value
    shape: Shape
    rows: Sequence[RowKind]

    @property
    def sizes(self) -> Sequence[int | None]:
        """The sizes of the axes; None for one that is not known."""
        return tuple([dim.size if isinstance(dim, Dim) else None for dim in self.shape.memory_axes])

    def meets(self, sizes: set[Sequence[int | None]]) -> bool:
        """Whether it has some sizes, and more than one element."""
        return self.sizes in sizes and self.shape.elements != 1

    @property
    def is_column(self) -> bool:
        """Whether it has batch axes, and output axes of size 1."""
        outputs = [size for size, row in zip(self.sizes, self.rows, strict=True) if row == "output"]
        return {*self.rows} == {BATCH, "output"} and {*outputs} == {1}

    @property
    def old(self) -> set[int]:
        """The axes that are not new, counted from the end."""
        return set(range(-len(self.rows), 0)) - self.value.new_axes

    @property
    def firm(self) -> set[int]:
        """Those of them whose row is not guessed."""
        return self.old - self.value.guessed_axes


def _known(value: Value) -> _Known | None:
    """The rows of a value; None where they follow from its uses only."""
    shape = graph.known_shape(value)
    if not is_memory(value) and not all(row.is_closed for row in shape):
        with suppress(ShapeError):
            shape = shape_now(value)
    if not all(row.is_closed for row in shape):
        return None
    return _Known(value, shape, [kind for kind in MEMORY_ORDER for _ in shape.row(kind).axes])


def known_rows(value: Value) -> Sequence[RowKind]:
    """The rows of the axes of a value in the order of memory; none where they follow from its uses only."""
    known = _known(value)
    return () if known is None else known.rows


def _known_batch(value: Value) -> _Known | None:
    """None for what has other axes than batch axes, or is not known."""
    shape = graph.known_shape(value)
    if shape.output.axes or shape.input.axes:
        return None
    known = _known(value)
    return known if known is not None and set(known.rows) == {"batch"} else None


def _first(rows: Sequence[RowKind]) -> RowKind:
    """The one that comes first in memory."""
    return next(kind for kind in MEMORY_ORDER if kind in rows)


class _Rows:
    """The rows of the axes of a result, counted from its last one."""

    def __init__(self, operands: Sequence[_Known]) -> None:
        self.operands = operands
        self.at: dict[int, RowKind] = {}
        last: RowKind = MEMORY_ORDER[-1]
        for place in range(-1, -max(len(axes.rows) for axes in operands) - 1, -1):
            self.at[place] = last = _first([self._wanted(place), last])

    def _wanted(self, place: int) -> RowKind:
        """The row of an axis of the result. Operands without new axes decide; where there are none that have
        the axis, those in which it is neither new nor guessed; then those in which it is guessed. Where they
        differ it is the row that comes first in memory.
        """
        having = [axes for axes in self.operands if -place <= len(axes.rows)]
        old = [axes for axes in having if place in axes.old]
        firm = [axes for axes in old if place in axes.firm]
        given = [axes for axes in firm if not axes.value.new_axes]
        return _first([axes.rows[place] for axes in given or firm or old or having])

    def moved(self, operand: Value) -> Value:
        """The operand with its axes in the rows of the result."""
        known = next((axes for axes in self.operands if axes.value is operand), None)
        if known is None:
            return operand
        wanted: list[RowKind] = [self.at[place] for place in range(-len(known.rows), 0)]
        if wanted == known.rows:
            return operand
        result = _in_rows(operand, wanted)
        result.new_axes = operand.new_axes
        return result
