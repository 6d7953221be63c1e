"""Eager mode while a program is built: operations that were seen before, and expressions that wait for a
write.

An operation that was made before, of the same operands, is the same value: so what is done again costs no
inference and no compilation. An expression is pure, and means what it meant when it was made: before memory
that living expressions read is written, they are computed, and their handles become data. Data take the place
of data of the same type that nobody holds any more, so that what is done with them is found again, too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from threading import get_ident
from typing import Any, Protocol, TypeAlias
from weakref import ref

from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import Const
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, RowVar
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_shapes.terms import DimEq
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.module.reads import Key, reads_of
from ocannl.program.values import Value, is_memory, now, values_of

MOST_KNOWN = 20_000
"""Operations that are remembered; then all are forgotten."""


class Handle(Protocol):
    """A tensor, whose value a write may replace by its data."""

    ir_value: Value


class _Living(ref[Any]):
    """A reference to a handle or statement, with the data that it depends on."""

    __slots__ = ("at", "context", "data")
    at: int
    data: tuple[Value, ...]
    context: object
    """Where its value is: the context that was the default when it was made."""


_Turn: TypeAlias = tuple[int, int]
"""How often things were forgotten before data were made, as a negative number, and the number of the data."""
Resolve: TypeAlias = Callable[[DimTerm], DimTerm]
"""Gives what is known of a dimension."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An operation as eager mode knows it: its key, its dimensions, those that it alone has, and the value of
    an equal one, with its dimensions.
    """

    key: tuple[Any, ...]
    dims: tuple[DimTerm, ...]
    own: frozenset[DimTerm]
    value: Value | None
    known: tuple[DimTerm, ...]

    def equations(self) -> list[DimEq]:
        """The dimensions that are equal if the operations are."""
        pairs = zip(self.dims, self.known, strict=True)
        return [DimEq(new, known) for new, known in pairs if new in self.own]


class Recorder:
    """The expressions that were made in eager mode, by a key that equal ones share."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], list[tuple[Value, tuple[DimTerm, ...]]]] = {}
        """Values of operations that are equal but for their dimensions, with these."""
        self.applied: dict[tuple[Any, ...], Value] = {}
        """Values of operations by what these are made of."""
        self.loops: dict[tuple[Any, ...], Sequence[Value]] = {}
        """Arguments and results of loops by what these are made of."""
        self.numbers: dict[tuple[Any, ...], tuple[Const, ...]] = {}
        """The numbers beside operands; none where they were others later."""
        self.positions: dict[tuple[Any, ...], set[int]] = {}
        """Where parts of a value begin that are part of the program."""
        self.dims: set[DimVar] = set()
        self.rows: set[RowVar] = set()
        """Unknowns of the values that are known."""
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

    # Operations.

    def find(self, op: texpr.TensorOp, resolve: Resolve) -> Seen | None:
        """The key of an operation; None for one that is never the same."""
        operands, type = values_of(op), tensor_type(op.result)
        if isinstance(op, texpr.MemoryOp | texpr.OfOp | ScanOp | ArgumentOp) or "call" in op.attributes:
            return None
        dims: list[DimTerm] = []
        properties = [self._attribute(value, dims, resolve) for value in op.properties.values()]
        if isinstance(op, texpr.RangeOp):
            dims += map(resolve, type.shape.data.output.axes)
        elif _is_shaped_by_uses(op) and not type.shape.data.is_final:
            return None
        read = tuple([self._operand(value, dims, resolve) for value in operands])
        own = frozenset([dim for dim in dims if self._is_new(dim)])
        if own and not _is_told_by_operands(op, own, resolve):
            return None
        rows = [] if isinstance(op, texpr.RangeOp) else [self._row(row) for row in type.shape.data]
        noted = op.attributes.get("indices")
        key = (op.name, read, *op.properties, *properties, *rows, type.element_or_none, noted)
        for value, known in self.known.get(key, ()):
            known = tuple(map(resolve, known))
            if _are_equal(dims, own, known):
                return Seen(key, tuple(dims), own, value, known)
        return Seen(key, tuple(dims), own, None, ())

    def remember(self, seen: Seen, value: Value) -> None:
        """Notes the value of an operation that was not known."""
        if len(self.known) >= MOST_KNOWN:
            ENGINE.only.forget()
        self.known.setdefault(seen.key, []).append((value, seen.dims))
        self.dims.update([dim for dim in seen.dims if isinstance(dim, DimVar)])
        for row in tensor_type(value).shape.data:
            self.dims.update(axis for axis in row.axes if isinstance(axis, DimVar))
            if row.var is not None:
                self.rows.add(row.var)

    def once(self, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """The value that was made for a key, or one that is made now."""
        value = self.applied.get(key)
        if value is None:
            value = make()
            self.note_made(key, value)
        else:
            note_again(value)
        return value

    def note_made(self, key: tuple[Any, ...], value: Value) -> None:
        """Notes the value that was made for a key."""
        if len(self.applied) >= MOST_KNOWN:
            ENGINE.only.forget()
        self.applied[key] = value

    def forget(self) -> None:
        """Forgets the operations that were seen, and data that nothing depends on.

        What other threads are reading stays as it is; operations go before their unknowns.
        """
        self.known, self.applied, self.loops, self.numbers, self.positions = {}, {}, {}, {}, {}
        self.dims, self.rows = set(), set()
        self.reads, self.replaceable = {}, {}
        for value in list(filter(self.is_free, list(self.places))):
            del self.places[value], self.users[value]
        self.free, self.queued = {}, set()
        self._times_forgotten += 1

    def _attribute(self, attribute: Attribute, dims: list[DimTerm], resolve: Resolve) -> Any:
        """An attribute. Its dimensions stand apart from the key, as more is known of them later."""
        if not isinstance(attribute, DimsAttr):
            return attribute
        dims += [resolve(dim) for _, dim in attribute.data]
        return tuple([name for name, _ in attribute.data])

    def _operand(self, value: Value, dims: list[DimTerm], resolve: Resolve) -> Any:
        """An operand. A size as a number, or a range, is told by its dimension."""
        if isinstance(value.op, texpr.SizeOp):
            dim = value.op.dim
        elif isinstance(value.op, texpr.RangeOp):
            (dim,) = tensor_type(value).shape.data.output.axes
        else:
            return value
        if self._is_new(dim := resolve(dim)):
            return value
        dims.append(dim)
        return value.op.name

    def _is_new(self, dim: DimTerm) -> bool:
        """Whether a dimension is not known, and only this operation has it."""
        return isinstance(dim, DimVar) and dim not in self.dims

    def _row(self, row: Row) -> Row | None:
        """A row, None if only this operation has it."""
        return row if row.is_final or row.var in self.rows else None

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

    def let_go(self, statements: Iterable[Operation]) -> None:
        """Statements that belong to an expression use the data that it has each time."""
        for statement in statements:
            living = self.statements.pop(id(statement), None)
            if living is not None:
                self._release(living)

    def _hold(self, kept: dict[int, _Living], what: Any, data: Sequence[Value]) -> None:
        def gone(living: Any) -> None:
            if kept.get(living.at) is living:
                del kept[living.at]
                self._release(living)

        living = _Living(what, gone)
        living.at, living.data, living.context = id(what), tuple(data), DEFAULT.get()
        kept[living.at] = living
        for each in data:
            self.users[each] = self.users.get(each, 0) + 1

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
        for each in living.data:
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


def _is_shaped_by_uses(op: texpr.TensorOp) -> bool:
    """Whether the shape of an operation follows from its uses alone: equal operations may differ in these."""
    return not values_of(op) or (isinstance(op, UniformOp) and op.like is None)


def _is_told_by_operands(op: texpr.TensorOp, own: frozenset[DimTerm], resolve: Resolve) -> bool:
    """Whether all dimensions that no other operation has occur in the operands. One that occurs in the result
    alone follows from the uses of the result, in which equal operations may differ.
    """
    if not isinstance(op, texpr.ApplyOp) or op.logic is None or op.dims is None:
        return False
    spec = parse_spec(op.logic.data)
    rows = {row.var for slot in spec.operands for row in slot.rows}
    return all(
        name in spec.operand_names or name in rows for name, dim in op.dims.data if resolve(dim) in own
    )


def _are_equal(dims: Sequence[DimTerm], own: frozenset[DimTerm], known: Sequence[DimTerm]) -> bool:
    """Whether dimensions are those that are known, if those that only the new operation has are given."""
    given: dict[DimTerm, DimTerm] = {}
    return all(
        given.setdefault(dim, other) == other if dim in own else dim == other
        for dim, other in zip(dims, known, strict=True)
    )


_depth: ContextVar[int] = ContextVar("depth", default=0)


def depth() -> int:
    """How many cells of loops are being called inside of each other."""
    return _depth.get()


@contextmanager
def in_cell() -> Generator[None]:
    """Notes that the cell of a loop is called."""
    token = _depth.set(depth() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def note_again(value: Value) -> None:
    """Notes that a value is made again: in the cell of a loop, it is one of each iteration."""
    if depth():
        value.made = now()


def statement_key(statement: Operation) -> tuple[Any, ...]:
    """The key of a statement: equal for statements that do the same, whenever they were made."""
    return statement.name, values_of(statement), *statement.properties.items()


RECORDER = Recorder()

_is_on: ContextVar[bool] = ContextVar("eager", default=False)


def is_eager() -> bool:
    """Whether eager mode is on."""
    return _is_on.get()


class mode:
    """A context with eager mode on or off."""

    __slots__ = ("_on", "_token")

    def __init__(self, on: bool) -> None:
        self._on = on

    def __enter__(self) -> None:
        self._token = _is_on.set(self._on)

    def __exit__(self, *error: object) -> None:
        _is_on.reset(self._token)


def switch(on: bool) -> None:
    """Turns eager mode on or off, in this thread."""
    _is_on.set(on)


class Engine(Protocol):
    """The engine that runs programs for eager mode, seen from below."""

    def look(self, value: Value) -> NDArray[Any]:
        """The value now."""
        ...

    def decide(self, value: Value) -> None:
        """Decides the type of a value, where that follows from what it depends on."""
        ...

    def write(self, target: Value, value: Value | float) -> None:
        """Sets memory to the value of an expression, or to a number."""
        ...

    def run(self, code: Sequence[Operation]) -> None:
        """Runs statements once."""
        ...

    def backward(self, value: Value, gradient: Value | None) -> None:
        """Adds to the gradients of everything that a value depends on."""
        ...

    def settle(self, keys: Iterable[Key], context: Any) -> None:
        """Computes what living expressions read in memory that is about to be written."""
        ...

    def data(self, contents: NDArray[Any], type: TensorType, label: str) -> Value:
        """Data with some contents, in the place of others that nobody uses if there are such."""
        ...

    def forget(self) -> None:
        """Forgets what was done, with all routines for it."""
        ...


class Engines:
    """The engine, which registers itself when contexts are imported."""

    made: Engine | None = None

    @property
    def only(self) -> Engine:
        assert self.made is not None, "contexts are imported with the package"
        return self.made


ENGINE = Engines()
