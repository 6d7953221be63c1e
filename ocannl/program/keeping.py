"""Expressions that keep the meaning that they had when they were made.

In code, an expression is computed where it is used. In a function, one that was made before a write, and is
used after it, is computed before it and kept: the loss that a function returns after an update is the one
before. Inside of code that was put together before it ran, such as a recipe, expressions are computed as in
all code.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.program.code import Recording
from ocannl.program.location import user_location
from ocannl.program.module.reads import Key, reads_of, written_by
from ocannl.program.values import Value, is_memory, values_of, when_made


def with_kept(block: Recording, results: Iterable[Value]) -> list[Operation]:
    """The statements of a block, with those that keep what is used later, there or as a result."""
    keeping = _Keeping(block)
    for at, statement in enumerate(block.statements):
        keeping.use(values_of(statement), at, when_made(statement))
        keeping.write(statement, at)
    end = len(block.statements)
    keeping.use(results, end, None)
    found: list[Operation] = []
    for at, statement in enumerate(block.statements):
        found += [_kept(value) for value in keeping.kept.get(at, ())]
        found.append(statement)
    return found


def _kept(value: Value) -> Operation:
    op = texpr.ForwardOp(value, keep=True)
    op.location = user_location()
    return op


class _Keeping:
    """Collects values that have to be kept, by the place of the statement before which they are computed."""

    def __init__(self, block: Recording) -> None:
        self.added = block.added
        self.writes: dict[Key, list[int]] = {}
        """The places of the statements that write memory."""
        self.kept: dict[int, list[Value]] = {}
        self.known: dict[Value, frozenset[Key]] = {}
        self.visited: dict[Value, int] = {}
        """Values of which all is found, with the number of writes to their memory so far."""

    def write(self, statement: Operation, at: int) -> None:
        for key in written_by(statement):
            self.writes.setdefault(key, []).append(at)

    def use(self, values: Iterable[Value], at: int, made: int | None) -> None:
        """Uses at a place, by a statement that was made at some time; a result has none."""
        if not self.writes:
            return
        sees_all = made is None or all(self.added[places[-1]] < made for places in self.writes.values())
        visited = self.visited if sees_all else dict[Value, int]()
        waiting = [*values]
        while waiting:
            value = waiting.pop()
            if is_memory(value):
                continue
            written = sum(len(self.writes.get(key, ())) for key in reads_of(value, self.known))
            if visited.get(value) == written:
                continue
            visited[value] = written
            write = self.write_since(value, at, made)
            if write is None:
                waiting += values_of(value.op)
            elif value not in self.kept.setdefault(write, []):
                self.kept[write].append(value)

    def write_since(self, value: Value, at: int, made: int | None) -> int | None:
        """The first write, before a place, to what a value reads that was added after the value was made; and
        before the statement that uses it was.
        """
        found = [
            write
            for key in reads_of(value, self.known)
            for write in self.writes.get(key, ())
            if write < at and value.made < self.added[write] and (made is None or self.added[write] < made)
        ]
        return min(found, default=None)
