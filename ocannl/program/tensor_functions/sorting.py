"""Sorting along one axis: by selection where few elements are asked for, by counting ranks where it is short,
else by Batcher's bitonic network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import apply, positions
from ocannl.program.tensor import Tensor, TensorLike
from ocannl.program.tensor_functions.along_axis import Along, along_axis
from ocannl.program.tensor_functions.einsums import concat
from ocannl.program.tensor_functions.selection import selected
from ocannl.program.tensor_functions.sort_keys import SortKeys, last_of, position_of
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value

SHORT = 32
"""Up to so many elements are ordered by counting for each one those before it."""
FEW = 8
"""Up to so many elements are found one after the other."""
WHERE = App("where", (Arg(0), Arg(1), Arg(2)))


def sort(t: TensorLike, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The elements in order along an axis; equal ones stay in order, and NaN is last. Gradients follow the
    elements.

    More than 32 elements are ordered by about log(n)**2 / 2 steps, each of which is compiled.
    """
    order = argsort(t, axis, descending=descending).ir_value
    return along_axis(t, axis, ("sorted", order), lambda along: _elements(along, order))


def argsort(t: TensorLike, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The positions of the elements in the order of `oc.sort`. It has no gradient."""
    return along_axis(t, axis, ("order", descending), lambda along: _order(along, along.size, descending))


def topk(t: TensorLike, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The `k` greatest elements along an axis, the greatest first, and their positions; as `oc.sort`."""
    count = integer(k, "the number of elements")

    def first(along: Along) -> Value:
        if count > along.size:
            raise ArgumentError(f"there are {along.size} elements along the axis, found k={k}")
        return _order(along, count, descending=True)

    order = along_axis(t, axis, ("first", count), first)
    elements = along_axis(t, axis, ("sorted", order.ir_value), lambda along: _elements(along, order.ir_value))
    return elements, order


def _order(along: Along, count: int, descending: bool) -> Value:
    """The positions of the first elements in order, along an axis."""
    if 0 < count <= min(FEW, along.size // 4):
        return selected(along, count, descending)
    if along.size <= SHORT:
        return _at_ranks(along, count, descending)
    return Network.of(along, descending).first(count)


def _elements(along: Along, order: Value) -> Value:
    """The elements at positions: a gather, for which nothing need be checked."""
    term = App("where", (App("eq", (Arg(0), Arg(1))), Arg(2), Const(0.0)))
    ranks = along.with_axis("rank")
    operands = [order, positions(Dim(along.size)), along.value]
    # Only one element is at a position, so that a truth value stays one.
    accum = "or" if element_now(along.value) == BOOL else "add"
    logic = f"{ranks}; {along.name},; {along.slot} => {ranks}"
    return apply(term, operands, logic=logic, accum=accum)


def _at_ranks(along: Along, count: int, descending: bool) -> Value:
    """The positions of the elements of the first ranks. A rank is how many elements come before one; of equal
    ones, those of smaller positions.
    """
    x, other, other_at, at = Arg(0), Arg(1), Arg(2), Arg(3)
    before = App("lt", (x, other) if descending else (other, x))
    x_nan, other_nan = App("ne", (x, x)), App("ne", (other, other))
    number_first = App("and", (x_nan, App("not", (other_nan,))))
    tie = App("or", (App("eq", (x, other)), App("and", (x_nan, other_nan))))
    earlier = App("and", (tie, App("lt", (other_at, at))))
    term = App("or", (App("or", (earlier, number_first)), before))
    numbers = positions(Dim(along.size))
    logic = f"{along.slot}; {along.with_axis('other')}; other,; {along.name}, => {along.slot}"
    ranks = apply(term, [along.value, along.value, numbers, numbers], logic=logic, accum="add")
    has_rank = App("where", (App("eq", (Arg(0), Arg(1))), Arg(2), Const(0)))
    logic = f"{along.slot}; rank,; {along.name}, => {along.with_axis('rank')}"
    return apply(has_rank, [ranks, positions(Dim(count)), numbers], logic=logic, accum="add")


@dataclass(frozen=True, slots=True)
class Network:
    """Keys and their positions while they are ordered (Batcher, "Sorting networks and their applications",
    1968).

    The axis is `bits` axes of two elements, and one of `runs`. A run is 2**`bits` elements in order, the
    first bit that of least weight; in the upper half of the runs it is in reverse. So all steps but a few
    compare elements side by side with others side by side, as vectors do.

    Attributes:
        keys: what is compared first.
        numbers: the positions, by which all elements differ.
    """

    along: Along
    keys: Value
    numbers: Value
    bits: int
    runs: int
    descending: bool

    @staticmethod
    def of(along: Along, descending: bool) -> Network:
        """Runs of single elements: those of an axis, and others that come last, as NaN does."""
        size = 2 ** (along.size - 1).bit_length()
        keys, numbers = SortKeys.of(along, descending, size)
        added = size - along.size
        keys = replace(along, value=keys).extended(added, last_of(descending)).value
        numbers = replace(along, value=numbers).extended(added, "min").value
        return Network(along, keys, numbers, 0, size, descending)

    @property
    def axes(self) -> list[str]:
        """The axes that stand for the one that is ordered."""
        return [*(f"bit{number}" for number in range(self.bits)), "run"]

    def slot(self, *axes: str) -> str:
        """The slot of a spec with these axes in place of the one that is ordered."""
        return str(self.along.slot.with_axes({self.along.name: axes}))

    def first(self, count: int) -> Value:
        """The first `count` positions in order, along an axis."""
        bits, found = (count - 1).bit_length(), self
        while found.bits < bits:
            found = found.paired().merged()
        while found.runs > 1:
            found = found.paired().kept().merged()
        logic = f"{found.slot(*found.axes)} => {found.slot('&'.join(reversed(found.axes)))}"
        ordered = position_of(found.numbers, self.runs, logic)
        return replace(self.along, value=ordered, size=2**bits).first(count, "add")

    def paired(self) -> Network:
        """With one bit more, which tells the lower half of the runs from the upper half."""
        *bits, run = self.axes
        logic = f"{self.slot(*bits, f'pair&{run}')} => {self.slot(*bits, 'pair', run)}"
        keys, numbers = (
            apply(Arg(0), [value], logic=logic, dims=[("pair", Dim(2))])
            for value in (self.keys, self.numbers)
        )
        return replace(self, keys=keys, numbers=numbers, bits=self.bits + 1, runs=self.runs // 2)

    def merged(self) -> Network:
        """With runs in order that rise, then fall."""
        found = self
        for bit in reversed(range(self.bits)):
            found = found.exchanged(bit)
        return found

    def halves(self, bit: int) -> list[str]:
        """The slots of the elements where a bit is 0 and 1, and one without it."""
        axes = self.axes
        return [self.slot(*axes[:bit], *at, *axes[bit + 1 :]) for at in (["0"], ["1"], [])]

    def swapped(self, bit: int, *, reverse: bool) -> Value:
        """Whether an element where a bit is 0 comes after the one where it is 1; with `reverse`, before it in
        the upper half of the runs.
        """
        key, other, number, other_number = Arg(0), Arg(1), Arg(2), Arg(3)
        greater = App("lt", (key, other) if self.descending else (other, key))
        tie = App("and", (App("eq", (key, other)), App("lt", (other_number, number))))
        term: Term = App("or", (greater, tie))
        operands = [self.keys, self.keys, self.numbers, self.numbers]
        low, high, rest = self.halves(bit)
        slots = [low, high, low, high]
        if reverse:
            term = App("ne", (term, App("le", (Const(self.runs // 2), Arg(4)))))
            operands.append(positions(Dim(self.runs)))
            slots.append("run,")
        return apply(term, operands, logic=f"{'; '.join(slots)} => {rest}")

    def chosen(self, bit: int, swapped: Value, value: Value, *, second: bool, part: str | None) -> Value:
        """One element of each pair: after an exchange the first or the second, at a bit or without it."""
        low, high, rest = self.halves(bit)
        slots = f"{low}; {high}" if second else f"{high}; {low}"
        axes = self.axes
        result = self.slot(*axes[:bit], *([part] if part else []), *axes[bit + 1 :])
        dims = [(part, Dim(1))] if part else []
        return apply(WHERE, [swapped, value, value], logic=f"{rest}; {slots} => {result}", dims=dims)

    def exchanged(self, bit: int) -> Network:
        """With the elements of each pair that a bit tells apart in order."""
        swapped, axes = self.swapped(bit, reverse=self.runs > 1), self.axes
        slots = [self.slot(*axes[:bit], part, *axes[bit + 1 :]) for part in ("low", "high", "low^high")]

        def both(value: Value) -> Value:
            low, high = (
                Tensor(self.chosen(bit, swapped, value, second=second, part="part"))
                for second in (False, True)
            )
            return concat(f"{slots[0]}; {slots[1]} => {slots[2]}", low, high).ir_value

        return replace(self, keys=both(self.keys), numbers=both(self.numbers))

    def kept(self) -> Network:
        """With the first element of each pair that the last bit tells apart. As one of the two runs is in
        reverse, these are the first half of both.
        """
        bit = self.bits - 1
        swapped = self.swapped(bit, reverse=False)
        keys, numbers = (
            self.chosen(bit, swapped, value, second=False, part=None) for value in (self.keys, self.numbers)
        )
        return replace(self, keys=keys, numbers=numbers, bits=bit)
