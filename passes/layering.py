"""Which layer each value of a routine belongs to, where layers repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.derivatives import DerivativeOp
from ocannl.dialects.texpr import ApplyOp, BackpropOp, MemoryOp, ParamOp
from ocannl.passes.derivative_paths import differentiable_operands
from ocannl.passes.repeats import LEAST_REPEATS, Repeat, apart, repeats

# What tells nodes apart, not what is done with them.
NAMES = {"label"}


class Code:
    """The statements of a routine, with numbers that are equal for those that do the same."""

    def __init__(self, statements: Sequence[Operation]) -> None:
        self.statements = statements
        self.values: dict[Operation, list[SSAValue]] = {op: [*op.results, *op.operands] for op in statements}
        """What each statement computes, and what it uses."""
        self.attributes: dict[Attribute, int] = {}
        self.numbers: dict[int, int] = {}
        self.is_differentiated = any(isinstance(op, DerivativeOp | BackpropOp) for op in statements)
        self.active: set[SSAValue] = set()
        """What depends on parameters, in code that asks for derivatives."""
        known: dict[Hashable, int] = {}
        codes = [known.setdefault(self.code(op), len(known)) for op in statements]
        self.code_of = dict(zip(statements, codes, strict=True))
        # What is computed for all layers stands in the first one that needs it.
        often = np.bincount(codes) >= LEAST_REPEATS if codes else np.array([], np.bool_)
        self.frequent = [op for op, code in zip(statements, codes, strict=True) if often[code]]
        """The statements with others that do the same; stretches tell places among these."""
        found = repeats(np.array([self.code_of[op] for op in self.frequent], np.int64))
        self.stretches = sorted(apart(found), key=lambda repeat: repeat.start)
        places = sorted({place for repeat in found for place in range(repeat.start, repeat.stop)})
        self.repeating = [self.frequent[place] for place in places]

    def code(self, op: Operation) -> Hashable:
        """What a statement is, apart from the values that it uses. Operands come after their operations."""
        parts = [(name, self.number(part)) for name, part in op.properties.items() if name not in NAMES]
        types = [self.number(value.type) for value in self.values[op]]
        is_active = isinstance(op, ParamOp) or not self.active.isdisjoint(differentiable_operands(op))
        if is_active and self.is_differentiated:
            self.active.update(op.results)
        return op.name, tuple(parts), tuple(types), tuple([operand in self.active for operand in op.operands])

    def number(self, attribute: Attribute) -> int:
        """Comparing attributes takes long, and many are the same object."""
        number = self.numbers.get(id(attribute))
        if number is None:
            number = self.attributes.setdefault(attribute, len(self.attributes))
            self.numbers[id(attribute)] = number
        return number

    def boundary(self, stretch: Repeat) -> int | None:
        """Where the second layer of a stretch begins: with a sum, which starts a nest, and where the fewest
        values of the layer before are used in it. None where no value is, so that these are no layers.

        What the first one reads is the layer before the second; it may be the stretch that begins there.
        """
        start, period = stretch.start, stretch.period
        places = {op: place for place, op in enumerate(self.frequent[: start + 3 * period])}
        crossing = np.zeros(period, np.int64)
        for place in range(start + period, start + 2 * period):
            for result in self.frequent[place].results:
                uses = [places.get(use.operation, 0) for use in result.uses]
                last = max((use for use in uses if use <= place + period), default=place)
                crossing[[(at - start) % period for at in range(place + 1, last + 1)]] += 1
        if not crossing.all():
            return None
        first = range(start, start + period)
        sums = [at for at in first if begins_sum(self.frequent[at : at + period])]
        boundary = min(sums or first, key=lambda at: crossing[at - start])
        is_alike = all(self.is_alike(*pair) for pair in self.outer_pairs(stretch, boundary))
        return boundary if is_alike else boundary + period

    def outer_pairs(self, stretch: Repeat, boundary: int) -> Iterator[tuple[SSAValue, SSAValue]]:
        """What a layer that begins at a place uses from before the stretch, with what the next one uses of
        that layer.
        """
        own = self.frequent[boundary : boundary + stretch.period]
        following = self.frequent[boundary + stretch.period : boundary + 2 * stretch.period]
        inside, before = set(own), set(self.frequent[stretch.start : boundary])
        for op, other in zip(own, following, strict=True):
            for value, next_value in zip(self.values[op], self.values[other], strict=True):
                if next_value.owner in inside and value.owner not in inside | before:
                    yield value, next_value

    def is_alike(self, value: SSAValue, other: SSAValue) -> bool:
        """Whether values are computed alike, so that passes do the same with them in what uses them."""
        codes = [self.code_of.get(v.owner) for v in (value, other) if isinstance(v.owner, Operation)]
        return len(set(codes)) == 1


def begins_sum(statements: Sequence[Operation]) -> bool:
    """Whether the first expression accumulates."""
    first = next((op for op in statements if not isinstance(op, MemoryOp)), None)
    return isinstance(first, ApplyOp) and first.accum is not None


class Layering:
    """The layers of a routine's values: those that one stretch of repeating code computes, and what other
    repeating code does with them.

    Each layer of the stretch has as many statements as its period, but the first one, which may be
    irregular, or just what the second one reads. What is done after the last whole one belongs to none.
    """

    def __init__(self, code: Code, stretch: Repeat, boundary: int) -> None:
        self.code = code
        self.stretch = stretch
        self.level: dict[SSAValue, int] = {}
        whole = (stretch.stop - boundary) // stretch.period
        self.layers = 1 + whole
        first, last = max(stretch.start, boundary - stretch.period), boundary + whole * stretch.period
        for place, op in enumerate(code.frequent[first:last], first):
            self.level |= dict.fromkeys(op.results, (place - boundary) // stretch.period + 1)
        self.level |= {value: 0 for value, _ in code.outer_pairs(stretch, boundary)}
        self.extend_first()
        self.follow(code.repeating)
        for value in [value for value in self.level if not self.is_near(value)]:
            del self.level[value]

    def extend_first(self) -> None:
        """All that the first layer needs belongs to it."""
        needed = [value for value, level in self.level.items() if level == 0]
        while needed:
            op = needed.pop().owner
            if isinstance(op, Operation):
                new = [operand for operand in op.operands if operand not in self.level]
                self.level |= dict.fromkeys(new, 0)
                needed += new

    def follow(self, statements: Sequence[Operation]) -> None:
        """What is computed with the values of a layer, or for that, belongs to it."""
        inside, known = set(statements), -1
        while known < len(self.level):
            known = len(self.level)
            waiting = [op for op in statements if not self.level.keys() >= set(self.code.values[op])]
            for op in (*waiting, *reversed(waiting)):
                values = self.code.values[op]
                levels = [level for value in values if (level := self.level.get(value)) is not None]
                own = [value for value in values if value not in self.level and value.owner in inside]
                if levels and own:
                    self.level |= dict.fromkeys(own, max(levels))

    def is_near(self, value: SSAValue) -> bool:
        """Whether a value is used in its own layer and the next one only, as far as layers use it."""
        level = self.level[value]
        users = [self.of(use.operation) for use in value.uses]
        return all(user is None or level <= user <= level + 1 for user in users)

    def of(self, op: Operation) -> int | None:
        """The layer of a statement: that of what it computes or sets."""
        values = self.code.values[op]
        return self.level.get(values[0]) if values else None

    def pairs(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """What the stretch computes and uses in a layer and in the next one, at the same place."""
        values = [self.code.values[op] for op in self.code.frequent[self.stretch.start : self.stretch.stop]]
        for own, following in zip(values, values[self.stretch.period :], strict=False):
            for one, other in zip(own, following, strict=True):
                level = self.level.get(one)
                if level is not None and self.level.get(other) == level + 1:
                    yield one, other
