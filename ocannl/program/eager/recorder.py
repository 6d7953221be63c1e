"""Eager mode while a program is built: what was made before, and expressions that wait for a write.

An operation that was made before, of the same operands, is the same value: so what is done again costs no
inference and no compilation. An expression is pure, and means what it meant when it was made: before memory
that living expressions read is written, they are computed, and their handles become data. Data take the place
of data of the same type that nobody holds any more, so that what is done with them is found again, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from threading import get_ident
from typing import Any, Protocol, TypeAlias
from weakref import ref

from xdsl.ir import Operation

from ocannl.dialects.scalar.terms import Const
from ocannl.program.eager.cells import note_again
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.seen_operations import Seen, SeenOperations
from ocannl.program.eager.setting import is_eager
from ocannl.program.module.reads import Key, reads_of
from ocannl.program.values import Value, is_memory, values_of

MOST_KNOWN = 20_000
"""Operations that are remembered; then all are forgotten."""


class Handle(Protocol):
    """A tensor, whose value a write may replace by its data."""

    ir_value: Value


class _Living(ref[Any]):
    """A reference to a handle or statement, with the data that it depends on."""

    __slots__ = ("at", "context", "data", "kept")
    at: int
    kept: dict[int, _Living]
    """Those among which it is, by the number at which it is."""
    data: tuple[Value, ...]
    context: object
    """Where its value is: the context that was the default when it was made."""


_Turn: TypeAlias = tuple[int, int]
"""How often things were forgotten before data were made, as a negative number, and the number of the data."""


class Recorder:
    """The expressions that were made in eager mode, by a key that equal ones share."""

    def __init__(self) -> None:
        self.operations = SeenOperations()
        self.applied: dict[tuple[Any, ...], Value] = {}
        """Values of operations by what these are made of."""
        self.loops: dict[tuple[Any, ...], Sequence[Value]] = {}
        """Arguments and results of loops by what these are made of."""
        self.numbers: dict[tuple[Any, ...], tuple[Const, ...]] = {}
        """The numbers beside operands; none where they were others later."""
        self.positions: dict[tuple[Any, ...], set[int]] = {}
        """Where parts of a value begin that are part of the program."""
        self.reads: dict[Value, frozenset[Key]] = {}
        self.replaceable: dict[Value, tuple[Value, ...]] = {}
        """The data that values depend on and that can be replaced."""
        self.living: dict[int, _Living] = {}
        self.statements: dict[int, _Living] = {}
        self.places: dict[Value, tuple[Any, _Turn]] = {}
        """Data that can be replaced: their type and label, and when it is their turn."""
        self.free: dict[Any, list[tuple[_Turn, Value]]] = {}
        """Heaps by type and label of data that nothing depended on when they came there."""
        self.queued: set[Value] = set()
        """The data in these heaps."""
        self.users: dict[Value, int] = {}
        """How many handles and statements depend on data that can be replaced."""
        self.given: dict[Value, int] = {}
        """Data since a thread ran something: what it builds may depend on them, and has no handle yet."""
        self._numbers = count()
        self._times_forgotten = 0

    def reads_of(self, value: Value) -> frozenset[Key]:
        """The memory that a value reads; noted in eager mode alone, which knows the value anyway."""
        return reads_of(value, self.reads if is_eager() else {})

    # What was made.

    def remember(self, seen: Seen, value: Value) -> None:
        """Notes the value of an operation that was not known."""
        if len(self.operations) >= MOST_KNOWN:
            ENGINE.only.forget()
        self.operations.remember(seen, value)

    def once(self, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """The value that was made for a key, or one that is made now."""
        value = self.again(key)
        if value is None:
            value = make()
            self.note_made(key, value)
        return value

    def again(self, key: tuple[Any, ...]) -> Value | None:
        """The value that was made for a key, if there is one."""
        value = self.applied.get(key)
        if value is not None:
            note_again(value)
        return value

    def note_made(self, key: tuple[Any, ...], value: Value) -> None:
        """Notes the value that was made for a key."""
        if len(self.applied) >= MOST_KNOWN:
            ENGINE.only.forget()
        self.applied[key] = value

    def forget(self) -> None:
        """Forgets the operations that were seen, and data that nothing depends on.

        What other threads are reading stays as it is.
        """
        self.operations = SeenOperations()
        self.applied, self.loops, self.numbers, self.positions = {}, {}, {}, {}
        self.reads, self.replaceable = {}, {}
        for value in list(filter(self.is_free, list(self.places))):
            del self.places[value], self.users[value]
        self.free, self.queued = {}, set()
        self._times_forgotten += 1

    # Handles.

    def note(self, handle: Handle) -> None:
        """Notes a handle, until it is gone or its value is data."""
        value = handle.ir_value
        data = self._data_of(value)
        if data or not is_memory(value):
            self._hold(self.living, handle, data)

    def note_statement(self, statement: Operation) -> None:
        """Notes a statement, so that the data that it uses stay as long as it is there."""
        if self.users:
            data = [each for value in values_of(statement) for each in self._data_of(value)]
            self._hold(self.statements, statement, data)

    def let_go(self, statements: Iterable[Operation], of: Value | None = None) -> None:
        """Statements that belong to an expression use the data that it has each time: all theirs, or those on
        which a value depends; their own, such as numbers that are data, stay.
        """
        own = None if of is None else {*self._data_of(of)}
        for statement in statements:
            living = self.statements.get(id(statement))
            if living is None:
                continue
            data, living.data = living.data, ()
            if own is not None:
                living.data = tuple([each for each in data if each not in own])
            self._set_free([each for each in data if each not in living.data])

    def _hold(self, kept: dict[int, _Living], what: Any, data: Sequence[Value]) -> None:
        living = _Living(what, self._gone)
        living.at, living.data, living.context, living.kept = id(what), tuple(data), DEFAULT.get(), kept
        kept[living.at] = living
        for each in data:
            self.users[each] = self.users.get(each, 0) + 1

    def _gone(self, living: Any) -> None:
        if living.kept.get(living.at) is living:
            del living.kept[living.at]
            self._release(living)

    def _data_of(self, value: Value) -> tuple[Value, ...]:
        """The replaceable data that a value depends on."""
        if not self.users:
            return ()
        found = self.replaceable.get(value)
        if found is None:
            reads = self.reads_of(value)
            found = tuple([key for key, is_gradient in reads if not is_gradient and key in self.users])
            if is_eager():
                self.replaceable[value] = found
        return found

    def has_data_of(self, value: Value, others: Iterable[Value]) -> bool:
        """Whether a value depends on no replaceable data but those that others depend on."""
        return {*self._data_of(value)} <= {data for other in others for data in self._data_of(other)}

    def _release(self, living: _Living) -> None:
        self._set_free(living.data)

    def _set_free(self, data: Iterable[Value]) -> None:
        for each in data:
            self.users[each] -= 1
            self._queue(each)

    def waiting(self, keys: Iterable[Key], context: object) -> list[Handle]:
        """The living expressions that read some memory of a context."""
        written = frozenset(keys)
        living = [each for each in list(self.living.values()) if each.context is context]
        handles = [handle for each in living if (handle := each()) is not None]
        found = [handle for handle in handles if not is_memory(handle.ir_value)]
        return [handle for handle in found if not written.isdisjoint(self.reads_of(handle.ir_value))]

    def handles_of(self, value: Value) -> list[Handle]:
        """The living handles of a value."""
        handles = [handle for each in list(self.living.values()) if (handle := each()) is not None]
        return [handle for handle in handles if handle.ir_value is value]

    def replace(self, handle: Handle, value: Value) -> None:
        """Makes a handle one of data."""
        living = self.living.pop(id(handle), None)
        if living is not None:
            self._release(living)
        handle.ir_value = value
        self.note(handle)

    # Data.

    def free_place(self, kind: Any) -> Value | None:
        """Data of a kind that nothing depends on: the oldest, so that what is done again finds its own. Those
        of what was forgotten are the last, as they may come back in the midst of a loop.
        """
        heap = self.free.get(kind, [])
        while heap:
            turn, value = heappop(heap)
            self.queued.discard(value)
            if self.is_free(value):
                if turn[0] != -self._times_forgotten:
                    self.places[value] = kind, self._next_turn()
                return value
        return None

    def _next_turn(self) -> _Turn:
        return -self._times_forgotten, next(self._numbers)

    def is_free(self, value: Value) -> bool:
        return self.users.get(value) == 0 and value not in self.given

    def _queue(self, value: Value) -> None:
        """Has data found if nothing depends on them."""
        if value in self.places and value not in self.queued and self.is_free(value):
            self.queued.add(value)
            kind, turn = self.places[value]
            heappush(self.free.setdefault(kind, []), (turn, value))

    def give(self, value: Value) -> None:
        """Keeps data until this thread runs something."""
        self.given[value] = get_ident()

    def has_run(self) -> None:
        """Notes that what this thread has built has handles."""
        if not self.given:
            return
        own = get_ident()
        for value in [value for value, thread in list(self.given.items()) if thread == own]:
            self.given.pop(value, None)
            self._queue(value)

    def add_place(self, kind: Any, value: Value) -> None:
        """Makes data replaceable, once they were given and no handle depends on them."""
        self.places[value] = kind, self._next_turn()
        self.users[value] = 0


def statement_key(statement: Operation) -> tuple[Any, ...]:
    """The key of a statement: equal for statements that do the same, whenever they were made."""
    return statement.name, values_of(statement), *statement.properties.items()


RECORDER = Recorder()
