"""The layer of each value of a routine in which layers repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.texpr import ApplyOp, BackpropOp, MemoryOp, ParamOp
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, DerivativeOp
from ocannl.passes.analysis.values.derivative_paths import differentiable_operands
from ocannl.passes.texpr.fold_layers.open_types import key_without_numbers
from ocannl.passes.texpr.fold_layers.repeats import LEAST_REPEATS, Repeat, apart, repeats

# Properties that name values, and do not decide on what is computed.
NAMES = {"label"}
# The layer of values that belong to none.
NO_LAYER = -1


class NumberedStatements:
    """The statements of a routine, numbered by what they compute: equal numbers for equal statements.

    Statements are identified by their places, and values by numbers in the order of definition.
    """

    def __init__(self, statements: Sequence[Operation]) -> None:
        self.statements = statements
        self.results: list[SSAValue] = [result for op in statements for result in op.results]
        """The values."""
        self.numbers = {id(value): number for number, value in enumerate(self.results)}
        """The numbers of values, by `id`."""
        self.values = [[self.numbers[id(v)] for v in (*op.results, *operands_of(op))] for op in statements]
        """The results of each statement, and then its operands."""
        self.owners = [place for place, op in enumerate(statements) for _ in op.results]
        """The statements that compute the values."""
        self.flat = np.array([*chain.from_iterable(self.values)], np.int64)
        """The values of all statements, one after the other."""
        self.counts = np.array([*map(len, self.values)], np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.has_results = np.array([bool(op.results) for op in statements], np.bool_)
        self.attributes: dict[Hashable, int] = {}
        self.known: dict[int, int] = {}
        """The numbers of attributes, from 1 on, by `id`: comparing them takes long."""
        self.types = [self.known.get(id(value.type)) or self.number(value.type) for value in self.results]
        # Custom gradients are of no use in code that asks for none.
        self.is_differentiated = any(
            issubclass(t, DerivativeOp | BackpropOp) and not issubclass(t, AdjointOp | CustomOp)
            for t in set(map(type, statements))
        )
        self.is_active = [False] * len(self.results)
        """Whether values depend on parameters, in code that asks for derivatives."""
        known: dict[tuple[str | int, ...], int] = {}
        codes = [known.setdefault(self.code(place), len(known)) for place in range(len(statements))]
        self.codes = np.array(codes, np.int64)
        # Values that all layers share are computed in the first one that uses them.
        self.frequent = np.flatnonzero(np.bincount(self.codes)[self.codes] >= LEAST_REPEATS)
        """The statements with others that do the same; stretches tell places among these."""
        found = repeats(self.codes[self.frequent])
        self.stretches = sorted(apart(found), key=lambda repeat: repeat.start)
        places = sorted({place for repeat in found for place in range(repeat.start, repeat.stop)})
        self.repeating: list[int] = self.frequent[places].tolist()

    def code(self, place: int) -> tuple[str | int, ...]:
        """A key of a statement without the values that it uses. Operands are defined before their users."""
        op, known, own = self.statements[place], self.known, self.computed(place)
        words: list[str | int] = [op.name, len(own)]
        for name, part in op.properties.items():
            if name not in NAMES:
                words += (name, known.get(id(part)) or self.number(part))
        if self.is_differentiated and own and self.depends_on_parameters(op, place):
            for value in own:
                self.is_active[value] = True
        words += map(self.types.__getitem__, self.values[place])
        words += map(self.is_active.__getitem__, self.values[place])
        return tuple(words)

    def depends_on_parameters(self, op: Operation, place: int) -> bool:
        if not any(map(self.is_active.__getitem__, self.values[place])):
            return type(op) is ParamOp
        return any(self.is_active[self.numbers[id(value)]] for value in differentiable_operands(op))

    def number(self, attribute: Attribute) -> int:
        number = self.attributes.setdefault(key_without_numbers(attribute), 1 + len(self.attributes))
        self.known[id(attribute)] = number
        return number

    def computed(self, place: int) -> list[int]:
        return self.values[place][: len(self.statements[place].results)]

    @cached_property
    def users(self) -> list[list[int]]:
        """The statements that use each value, each as often as it does."""
        found: list[list[int]] = [[] for _ in self.results]
        for place, op in enumerate(self.statements):
            for value in self.values[place][len(op.results) :]:
                found[value].append(place)
        return found

    def values_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of statements, concatenated; for a matrix of places, those of each row, whose statements
        are equal.
        """
        counts = self.counts[places.reshape(-1, places.shape[-1])[0]]
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.flat[np.repeat(self.starts[places], counts, axis=-1) + inside]

    def stretch(self, start: int, stop: int) -> list[int]:
        """The statements from `start` to `stop` among the frequent ones."""
        return self.frequent[start:stop].tolist()

    def boundary(self, stretch: Repeat) -> int | None:
        """Where the second layer of a stretch begins: with a sum, which starts a nest, and where the fewest
        values are live from one layer to the next. None where no value is, so that the repeated code is no
        layers.

        The operands of the first layer count as a layer before it; that may be the stretch that begins there.
        """
        start, period = stretch.start, stretch.period
        ranks = {place: rank for rank, place in enumerate(self.stretch(0, start + 3 * period))}
        crossing = np.zeros(period, np.int64)
        for rank, place in enumerate(self.stretch(start + period, start + 2 * period), start + period):
            for value in self.computed(place):
                uses = [ranks.get(user, 0) for user in self.users[value]]
                last = max((use for use in uses if use <= rank + period), default=rank)
                crossing[[(at - start) % period for at in range(rank + 1, last + 1)]] += 1
        if not crossing.all():
            return None
        first = range(start, start + period)
        sums = [at for at in first if self.begins_sum(self.stretch(at, at + period))]
        boundary = min(sums or first, key=lambda at: crossing[at - start])
        is_alike = all(self.is_alike(*pair) for pair in self.outer_pairs(stretch, boundary))
        return boundary if is_alike else boundary + period

    def begins_sum(self, places: Sequence[int]) -> bool:
        """Whether the first expression among statements is an accumulation."""
        ops = map(self.statements.__getitem__, places)
        first = next((op for op in ops if not isinstance(op, MemoryOp)), None)
        return isinstance(first, ApplyOp) and first.accum is not None

    def outer_pairs(self, stretch: Repeat, boundary: int) -> Iterator[tuple[int, int]]:
        """Pairs of corresponding operands of two successive layers, where the second is a value of the first
        layer and the first comes from before the stretch.
        """
        own = self.stretch(boundary, boundary + stretch.period)
        following = self.stretch(boundary + stretch.period, boundary + 2 * stretch.period)
        inside, before = set(own), set(self.stretch(stretch.start, boundary))
        for place, other in zip(own, following, strict=True):
            for value, next_value in zip(self.values[place], self.values[other], strict=True):
                owner = self.owners[value]
                if self.owners[next_value] in inside and owner not in inside and owner not in before:
                    yield value, next_value

    def is_alike(self, value: int, other: int) -> bool:
        """Whether two values are computed by equal statements, so that passes treat their users alike."""
        return bool(self.codes[self.owners[value]] == self.codes[self.owners[other]])


class Layering:
    """The assignment of a routine's values to layers, from one stretch of repeated code: the values that it
    computes, and those of other repeated code that depends on them or that they need.

    Each layer of the stretch has as many statements as its period. The first may be irregular, or consist
    only of the operands of the second. Statements after the last whole layer belong to none.
    """

    def __init__(self, code: NumberedStatements, stretch: Repeat, boundary: int) -> None:
        self.code = code
        self.stretch = stretch
        whole = (stretch.stop - boundary) // stretch.period
        self.layers = 1 + whole
        first, last = max(stretch.start, boundary - stretch.period), boundary + whole * stretch.period
        levels = [NO_LAYER] * len(code.results)
        for at, place in enumerate(code.stretch(first, last), first):
            for value in code.computed(place):
                levels[value] = (at - boundary) // stretch.period + 1
        for value, _ in code.outer_pairs(stretch, boundary):
            levels[value] = 0
        self.extend_first(levels)
        self.follow(code.repeating, levels)
        self.level = np.array(levels, np.int64)
        """The layer of each value, or `NO_LAYER`."""
        # What all layers use is computed from in each of them later, where it is inlined.
        far = self.far()
        self.level[self.slice_of([value for value in far.tolist() if self.level[value] == 0])] = NO_LAYER
        self.level[far] = NO_LAYER

    def extend_first(self, levels: list[int]) -> None:
        """Adds the backward slice of the first layer to it."""
        for value in self.slice_of([value for value, level in enumerate(levels) if level == 0]):
            if levels[value] == NO_LAYER:
                levels[value] = 0

    def slice_of(self, values: Sequence[int]) -> list[int]:
        """The backward slice of values."""
        found, needed = {*values}, [*values]
        while needed:
            new = {*self.code.values[self.code.owners[needed.pop()]]} - found
            found |= new
            needed += new
        return [*found]

    def follow(self, places: Sequence[int], levels: list[int]) -> None:
        """Adds statements to the layer of their operands or users, until nothing changes."""
        inside, has_changed = set(places), True
        while has_changed:
            has_changed = False
            places = [at for at in places if NO_LAYER in map(levels.__getitem__, self.code.values[at])]
            for place in (*places, *reversed(places)):
                values = self.code.values[place]
                level = max(map(levels.__getitem__, values))
                if level == NO_LAYER:
                    continue
                for value in values:
                    if levels[value] == NO_LAYER and self.code.owners[value] in inside:
                        levels[value], has_changed = level, True

    def far(self) -> NDArray[np.int64]:
        """The values with users outside of their own and the next layer."""
        used = self.code.flat
        own, user = self.level[used], np.repeat(self.of, self.code.counts)
        is_near = (own <= user) & (user <= own + 1)
        return used[(own != NO_LAYER) & (user != NO_LAYER) & ~is_near]

    @property
    def of(self) -> NDArray[np.int64]:
        """The layer of each statement: that of its result, or the last one of its operands."""
        found = np.full(len(self.code.statements), NO_LAYER)
        some = self.code.counts > 0
        found[some] = np.maximum.reduceat(self.level[self.code.flat], self.code.starts[some])
        computes = self.code.has_results
        found[computes] = self.level[self.code.flat[self.code.starts[computes]]]
        return found

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The values that the stretch defines or uses in each layer, with the corresponding ones of the next
        layer.
        """
        places, period = self.code.frequent[self.stretch.start : self.stretch.stop], self.stretch.period
        own, following = map(self.code.values_at, (places[:-period], places[period:]))
        level = self.level[own]
        near = (level != NO_LAYER) & (self.level[following] == level + 1)
        return own[near], following[near]
