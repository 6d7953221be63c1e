"""Sorting along one axis: by selection where few elements are asked for, by counting ranks where it is short,
else by Batcher's bitonic network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ocannl.dialects.scalar.precisions import BOOL
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import apply, positions, spec_apply
from ocannl.program.tensor import Tensor, TensorLike
from ocannl.program.tensor_functions.along_axis import Along, along_axis
from ocannl.program.tensor_functions.selection import selected
from ocannl.program.tensor_functions.sort_keys import SortKeys, last_of, position_of
from ocannl.program.types.final_types import element_now
from ocannl.program.values import Value

SHORT = 32
"""Up to so many elements are ordered by counting for each one those before it."""
FEW = 8
"""Up to so many elements are found one after the other."""
TOGETHER = 2
"""So many steps of a network are one, which loads and stores 2**2 keys, and their positions."""
WHERE = App("where", (Arg(0), Arg(1), Arg(2)))


def sort(t: TensorLike, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The elements in order along an axis; equal ones stay in order, and NaN is last. Gradients follow the
    elements.

    More than 32 elements are ordered by about log(n)**2 / 2 steps, of which two are compiled as one nest.
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
    first bit that of least weight. So elements side by side are those of several runs, which vectors compare
    with others side by side.

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
            found = found.paired().kept()
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
        """With both halves of each run as one: the first elements of one meet the last ones of the other."""
        return self.exchanged(self.bits, turned=True)

    def kept(self) -> Network:
        """With the first elements of both halves of each run, in order."""
        first, _ = self.ordered(self.at((0,), self.bits), self.at((1,), self.bits, turned=True))
        found = replace(self, keys=first.keys, numbers=first.numbers, bits=self.bits - 1)
        return found.exchanged(found.bits)

    def exchanged(self, bits: int, *, turned: bool = False) -> Network:
        """With the elements of each pair in order that a bit tells apart, for one bit after the other from so
        many of least weight; `turned` as in `at`.
        """
        if not bits:
            return self
        count = min(bits, TOGETHER)
        places = list(product((0, 1), repeat=count))
        parts = {place: self.at(place, bits, turned=turned) for place in places}
        for bit in range(count):
            for place in places:
                if not place[bit]:
                    other = (*place[:bit], 1, *place[bit + 1 :])
                    parts[place], parts[other] = self.ordered(parts[place], parts[other])
        in_memory = [parts[place[::-1]] for place in places]
        keys, numbers = (self.joined(each, bits, count) for each in zip(*in_memory, strict=True))
        return replace(self, keys=keys, numbers=numbers).exchanged(bits - count)

    def at(self, place: tuple[int, ...], bits: int, *, turned: bool = False) -> SortKeys:
        """The elements where the uppermost of so many bits have these values; with `turned`, those of the
        second half from their end.
        """
        below, above = self.axes[: bits - len(place)], self.axes[bits:]
        upper, *lower = place
        is_turned = turned and upper == 1
        at = [upper, *(1 - each if is_turned else each for each in lower)]
        read = [f"-{axis}" for axis in below] if is_turned else below
        logic = f"{self.slot(*read, *map(str, reversed(at)), *above)} => {self.slot(*below, *above)}"
        return SortKeys(*(apply(Arg(0), [value], logic=logic) for value in (self.keys, self.numbers)))

    def ordered(self, one: SortKeys, other: SortKeys) -> tuple[SortKeys, SortKeys]:
        """Elements of two parts, those first that come first."""
        keys, numbers = (Arg(0), Arg(1)), (Arg(2), Arg(3))
        greater = App("lt", keys if self.descending else keys[::-1])
        tie = App("and", (App("eq", keys), App("lt", numbers[::-1])))
        operands = [one.keys, other.keys, one.numbers, other.numbers]
        swapped = apply(App("or", (greater, tie)), operands, logic=".")
        first, second = (
            SortKeys(*(apply(WHERE, [swapped, *values], logic=".") for values in zip(*pair, strict=True)))
            for pair in ((other, one), (one, other))
        )
        return first, second

    def joined(self, parts: Sequence[Value], bits: int, count: int) -> Value:
        """The parts in which some bits have all their values, with these bits."""
        below, upper, above = self.axes[: bits - count], self.axes[bits - count : bits], self.axes[bits:]
        logic = f"{self.slot(*below, *above)} => {self.slot(*below, 'part', *above)}"
        apart = [apply(Arg(0), [part], logic=logic, dims=[("part", Dim(1))]) for part in parts]
        names = [f"part{number}" for number in range(len(parts))]
        slots = "; ".join(self.slot(*below, name, *above) for name in names)
        whole = spec_apply(
            f"{slots} => {self.slot(*below, '^'.join(names), *above)}", "add", "add", apart, []
        )
        logic = f"{self.slot(*below, '&'.join(upper), *above)} => {self.slot(*below, *upper, *above)}"
        return apply(Arg(0), [whole], logic=logic, dims=[(axis, Dim(2)) for axis in upper])
