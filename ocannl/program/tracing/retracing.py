"""Memory that a function makes while it is traced, which its later traces take again: state is shared by
name, not by routine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ocannl.dialects import texpr
from ocannl.dialects.shapes.shape import Row
from ocannl.program import graph
from ocannl.program.tracing.traced_calls import TracedCalls
from ocannl.program.values import Value

STATE = (texpr.ParamOp, texpr.NodeOp)


class TracedMemory:
    """The parameters and nodes that traces of one function have made, by path and by their number among those
    of one path.
    """

    def __init__(self, function: str) -> None:
        self._values: dict[tuple[str, int], list[Value]] = {}
        self._made = Counter[str]()
        self.calls = TracedCalls(function)

    def begin(self) -> None:
        """A new trace counts anew."""
        self._made.clear()

    def find(self, op: texpr.MemoryOp, path: str) -> Value | None:
        """The memory of an earlier trace, if it is of this kind and can have this shape."""
        number = self._made[path]
        self._made[path] += 1
        known = self._values.get((path, number), ())
        return next((value for value in known if _is_like(value, op)), None)

    def note(self, value: Value, path: str) -> None:
        self._values.setdefault((path, self._made[path] - 1), []).append(value)


_open: ContextVar[TracedMemory | None] = ContextVar("traced_memory", default=None)


@contextmanager
def retracing(memory: TracedMemory) -> Generator[None]:
    """A context in which parameters and nodes are those of earlier traces, where there are such."""
    memory.begin()
    token = _open.set(memory)
    try:
        yield
    finally:
        _open.reset(token)


def is_tracing() -> bool:
    """Whether a function is being traced."""
    return _open.get() is not None


def earlier_memory(op: texpr.MemoryOp, path: str) -> Value | None:
    """The memory that an earlier trace of the open function made in place of this operation."""
    memory = _open.get()
    return memory.find(op, path) if memory is not None and isinstance(op, STATE) else None


def note_memory(value: Value) -> None:
    """Notes memory that the open function makes."""
    memory = _open.get()
    if memory is not None and isinstance(value.op, STATE):
        assert value.path is not None
        memory.note(value, value.path.text)


def _is_like(value: Value, op: texpr.MemoryOp) -> bool:
    rows = zip(graph.known_shape(value), graph.known_shape(op.result), strict=True)
    return type(value.op) is type(op) and all(_agree(known, wanted) for known, wanted in rows)


def _agree(known: Row, wanted: Row) -> bool:
    """Whether two rows are not certainly different."""
    return not (known.is_final and wanted.is_final) or known.axes == wanted.axes
