"""The operations that others depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.program.values import Value, values_of

_made_by: Callable[[Value], texpr.TensorOp] = attrgetter("op")


def needed(
    statements: Sequence[Operation], ends: Callable[[texpr.TensorOp], bool] = lambda op: False
) -> list[texpr.TensorOp]:
    """The operations that statements depend on, operands first; of those that are `ends`, no operands."""
    return Needed(ends).of(statements)


def needed_for(
    values: Iterable[Value], ends: Callable[[texpr.TensorOp], bool] = lambda op: False
) -> list[texpr.TensorOp]:
    """The operations that values depend on, and their own, operands first; of those that are `ends`, no
    operands. It makes no statement of them, since operations and their uses refer to each other.
    """
    return Needed(ends).closure([*map(_made_by, values)])


class Needed:
    """The operations that statements depend on, for one after the other: each operation once."""

    def __init__(self, ends: Callable[[texpr.TensorOp], bool]) -> None:
        self.ends = ends
        self.done = set[int]()
        """Those that were found, by `id`: operations are hashed by a function of Python."""

    def of(self, statements: Iterable[Operation]) -> list[texpr.TensorOp]:
        """The operations that statements depend on, but for those that were found before."""
        return self.closure([*map(_made_by, chain.from_iterable(map(values_of, statements)))])

    def add(self, ops: Sequence[texpr.TensorOp]) -> list[texpr.TensorOp]:
        """Those of some operations that were not found before, and count as found from now on. Their operands
        are among them, or were found before.
        """
        new = [op for op in ops if id(op) not in self.done]
        self.done.update(map(id, new))
        return new

    def closure(self, ops: Sequence[texpr.TensorOp]) -> list[texpr.TensorOp]:
        found, done, opened = list[texpr.TensorOp](), self.done, set[int]()
        stack = [*reversed(ops)]
        while stack:
            op = stack[-1]
            key = id(op)
            if key in opened or key in done or self.ends(op):
                stack.pop()
                if key not in done:
                    done.add(key)
                    found.append(op)
            else:
                opened.add(key)
                stack += map(_made_by, reversed(values_of(op)))
        return found
