"""Loops over positions of tensors, which run when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.shapes.shape import Dim, DimTerm, Row
from ocannl.dialects.texpr.axes import LAST_BATCH_AXIS, Axis
from ocannl.program import graph
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import children
from ocannl.program.eager.cells import in_cell
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import here
from ocannl.program.loops.carried_shapes import check_carries
from ocannl.program.loops.loop import Loop, arguments, check_form, tensors, with_tensors
from ocannl.program.loops.scan_blocks import ahead, cut, joined, merged, split
from ocannl.program.loops.scan_updates import CarriedMemory
from ocannl.program.memory.memory_axes import MemoryAxes, Place
from ocannl.program.tensor import as_tensor
from ocannl.program.values import Value, label_of, now, values_of

Cell = Callable[[Any, Any], tuple[Any, Any]]


def scan(
    cell: Cell,
    init: Any,
    xs: Any = None,
    reverse: bool = False,
    length: int | None = None,
    axis: int | None = None,
    *,
    checkpoint_every: int | None = None,
) -> tuple[Any, Any]:
    """The stacked results `ys` and the last carry of a cell that runs at each position of `xs` in turn: a
    loop that runs when the program runs, as `jax.lax.scan`.

    `cell(carry, x)` returns `(carry, y)`. It is called once, with tensors that stand for those of one
    iteration. The carry begins with `init`, and keeps its form and its shapes. `init`, `xs` and `y` are
    tensors or trees of them (tuples, lists, dictionaries); `xs` may be None, if `length` is given, and so may
    `y`. The positions are along the last batch axis of each tensor of `xs`, or along `axis` in the order of
    memory; `x` is without it, and `ys` have it in the same place. `reverse` begins at the last position; `ys`
    stay in the order of `xs`.

    Parameters and other tensors that the cell uses are the same in all iterations, and what does not depend
    on `carry` or `x` is computed once. Random numbers differ in each iteration. The time to compile does
    not depend on the number of positions. Raises `ArgumentError` for a carry of another form, `ShapeError`
    where shapes do not fit, and when compiled `OcannlError` for tensors of one iteration that are used
    outside.

    With `checkpoint_every=k`, of a known number of positions, derivatives in reverse mode save the carry at
    every k-th position, and compute the k iterations from there again (Chen et al., "Training deep nets with
    sublinear memory cost", 2016). The cell is called once or twice then.
    """
    sequences = [_sequence(leaf, axis) for leaf in tensors(xs)]
    if length is None and not sequences:
        raise ArgumentError("a scan without xs needs its length=")
    known = None if length is None else integer(length, "the length of a scan")
    if checkpoint_every is not None:
        every = integer(checkpoint_every, "the number of positions", least=1)
        found = _Scan(cell, init, xs, sequences, reverse, known).in_blocks(every)
    else:
        found = _Scan(cell, init, xs, sequences, reverse, known).run()
    return found


@dataclass(frozen=True)
class _Scan:
    """A scan of some sequences, along an axis of each."""

    cell: Cell
    init: Any
    xs: Any
    sequences: Sequence[tuple[Value, Axis]]
    reverse: bool
    length: int | None
    along: Axis | None = None
    """The axis of the positions in stacks; by default that of the first sequence."""
    set_before: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """The values of memory that cells set, after the scans of the positions before."""

    def run(self, *, recompute: bool = False) -> tuple[Any, Any]:
        since = now()
        begin = [(as_tensor(leaf).ir_value, None) for leaf in tensors(self.init)]
        count = self._count()
        given = arguments([*begin, *self.sequences], count, self.cell)
        carries, positions = given[: len(begin)], given[len(begin) :]
        inits = [values_of(carry.op)[0] for carry in carries]
        with in_cell(), self._telling_the_axis():
            found = self.cell(with_tensors(self.init, carries), with_tensors(self.xs, positions))
        carry, y = _pair(found, self.init)
        stacked = [as_tensor(leaf).ir_value for leaf in tensors(y)]
        given = [as_tensor(leaf).ir_value for leaf in tensors(carry)]
        carried = CarriedMemory.of([*given, *stacked], since, self.set_before)
        every = [*carries, *carried.memory, *positions]
        loop = Loop(count, [*inits, *carried.begin], self.sequences, every, self.reverse, since)
        loop.recompute, loop.moved = recompute, carried.owners
        check_carries("a scan", inits, carries, given)
        lasts, stacks = loop.results([*given, *carried.new], [(v, self.axis) for v in stacked])
        carried.set_after(lasts[0] if lasts else stacks[0], lasts[len(given) :])
        self.set_before.update(zip(carried.memory, lasts[len(given) :], strict=True))
        lasts = lasts[: len(given)]
        return with_tensors(y, stacks), with_tensors(self.init, lasts)

    @contextmanager
    def _telling_the_axis(self) -> Generator[None]:
        """Errors about shapes of an iteration say along which axis the positions are, if there are others."""
        try:
            yield
        except ShapeError as error:
            for value, at in self.sequences:
                shape = graph.known_shape(value)
                if at == LAST_BATCH_AXIS and shape.batch.known > 1:
                    where = f"`{label_of(value)}` ({shape})"
                    way = f"the scan goes along the last batch axis of {where}; axis=0 is the first"
                    raise ShapeError(f"{error}\n  {way}") from None
            raise

    @property
    def axis(self) -> Axis:
        """That of the positions in stacks."""
        return self.along or (self.sequences[0][1] if self.sequences else LAST_BATCH_AXIS)

    def _count(self) -> DimTerm:
        """The number of positions; in eager mode as it is known."""
        if self.length is not None:
            return Dim(self.length)
        if not is_eager():
            return graph.fresh_dim()
        with suppress(ShapeError):
            return Dim(self.size())
        return graph.fresh_dim()

    def size(self) -> int:
        """The number of positions. Raises `ShapeError` where it is not known."""
        if self.length is not None:
            return self.length
        value, axis = self.sequences[0]
        return MemoryAxes(value).known_size(Place(axis.row, axis.number))

    def in_blocks(self, every: int) -> tuple[Any, Any]:
        """A scan of scans of so many positions, and of the positions that are left."""
        size = self.size()
        blocks, left = divmod(size, every)
        if blocks < 2:
            return self.run()
        if not left:
            return self._of_blocks(every, blocks)
        ends = [[cut(*one, size - left, first=first) for one in self.sequences] for first in (True, False)]
        whole, rest = (
            replace(self, sequences=[(value, at) for value, (_, at) in zip(end, self.sequences, strict=True)])
            for end in ends
        )
        whole, rest = replace(whole, length=size - left), replace(rest, length=left)
        if self.reverse:
            ys_rest, carry = rest.run(recompute=True)
            ys, last = replace(whole, init=carry)._of_blocks(every, blocks)
        else:
            ys, carry = whole._of_blocks(every, blocks)
            ys_rest, last = replace(rest, init=carry).run(recompute=True)
        pairs = zip(tensors(ys), tensors(ys_rest), strict=True)
        parts = [(one.ir_value, other.ir_value) for one, other in pairs]
        return with_tensors(ys, [joined(*both, self.axis, size - left, left) for both in parts]), last

    def _of_blocks(self, every: int, blocks: int) -> tuple[Any, Any]:
        in_blocks = [split(value, axis, every) for value, axis in self.sequences]
        outer = [ahead(axis) for _, axis in self.sequences]

        def block(carry: Any, xs: Any) -> tuple[Any, Any]:
            given = [leaf.ir_value for leaf in tensors(xs)]
            sequences = [(v, axis) for v, (_, axis) in zip(given, self.sequences, strict=True)]
            inner = _Scan(self.cell, carry, xs, sequences, self.reverse, every, self.axis)
            ys, last = inner.run(recompute=True)
            return last, ys

        sequences = [*zip(in_blocks, outer, strict=True)]
        along = ahead(self.axis)
        around = _Scan(block, self.init, self.xs, sequences, self.reverse, blocks, along, self.set_before)
        ys, last = around.run()
        return with_tensors(ys, [merged(y.ir_value, self.axis) for y in tensors(ys)]), last


def _sequence(leaf: Any, axis: int | None) -> tuple[Value, Axis]:
    value = as_tensor(leaf).ir_value
    if axis is None:
        shape = graph.known_shape(value)
        if shape.batch == Row():
            where = f"`{label_of(value)}` ({shape}) has no batch axis"
            raise ShapeError(here(f"{where}, along which a scan goes; axis=0 is its first axis"))
        return value, LAST_BATCH_AXIS
    place = MemoryAxes(value).place(integer(axis, "the number of an axis", least=None))
    return value, Axis(place.row, place.number)


def _pair(found: Any, init: Any) -> tuple[Any, Any]:
    """The two results of a cell: a carry of the form of `init`, and `y`."""
    parts, name = children(found), type(found).__name__
    if not isinstance(found, tuple) or parts is None or len(parts) != 2:
        raise ArgumentError(f"the cell of a scan returns (carry, y), found {name}")
    carry, y = parts.values()
    check_form(carry, init)
    return carry, y
