"""Padded axes of a function that is being traced: those whose basis is the name of a static index, their
real size.

Reductions leave out what is padded. Where the program does not show that it knows of it, they are errors.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError, ShapeError, at_line
from ocannl.dialects.shapes.shape import Dim
from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.mask_padding import WAY_OUT
from ocannl.program import graph
from ocannl.program.arguments.static_index import StaticIndex
from ocannl.program.location import is_called_through
from ocannl.program.values import Value, label_of, values_of

IndexT = TypeVar("IndexT", bound=StaticIndex)
KNOWING = "ocannl.nn."
"""The package whose means, losses, metrics and statistics are those of real rows."""


@dataclass
class PaddedAxes(Generic[IndexT]):
    """The static indices that are real sizes, by name; and what was done with such axes."""

    counts: Mapping[str, IndexT]
    counted: set[str] = field(default_factory=set[str])
    """Those whose real size the program has asked for."""
    reductions: list[tuple[Operation, Value]] = field(default_factory=list[tuple[Operation, Value]])
    """Operations that may reduce such axes, with the values or memory that they make."""

    def of(self, value: Value) -> dict[int, str]:
        """The names of the real sizes of a value's padded axes, by their numbers in the order of memory."""
        axes = graph.known_shape(value).memory_axes
        bases = [axis.basis if isinstance(axis, Dim) else None for axis in axes]
        return {number: basis for number, basis in enumerate(bases) if basis and basis in self.counts}

    def clash_in(self, cause: BaseException | None) -> bool:
        """Whether the solver has refused the size of a padded axis."""
        words = re.findall(r"\w+", cause.reason) if isinstance(cause, ShapeConflict) else ()
        return not self.counts.keys().isdisjoint(words)

    def check(self) -> None:
        """Raises `OcannlError` for a reduction over a padded axis whose real size nobody asked for."""
        for op, result in self.reductions:
            left = {*self.of(result).values(), *self.counted}
            for value in values_of(op):
                lost = [name for name in self.of(value).values() if name not in left]
                if lost:
                    raise OcannlError(at_line(op, self._message(value)))

    def _message(self, value: Value) -> str:
        t = label_of(value)
        return (
            f"a padded axis of `{t}` is reduced: oc.mean, and the losses and metrics of nn, are those of its "
            f"real rows; other reductions are so in a function that uses `{t}.count`, how many these are"
        )


_open: ContextVar[PaddedAxes[Any] | None] = ContextVar("padded_axes", default=None)


@contextmanager
def padding(axes: PaddedAxes[Any]) -> Generator[None]:
    """A context in which a function with padded axes is traced. A `ShapeError` over such an axis says why."""
    token = _open.set(axes)
    try:
        yield
    except ShapeError as error:
        if not axes.clash_in(error.__context__):
            raise
        why = "a padded axis may have rows that are not real, so it fits no other size, window or part"
        raise ShapeError(f"{error}\n  hint: {why}; {WAY_OUT}") from None
    finally:
        _open.reset(token)


def note_reduction(op: Operation, result: Value) -> None:
    """Notes an operation that may reduce a padded axis, unless a block of `nn` makes it."""
    axes = _open.get()
    if axes is not None and axes.counts and not is_called_through(KNOWING):
        axes.reductions.append((op, result))


def ask_counts(value: Value) -> list[Any]:
    """The static indices that are the real sizes of the padded axes of a value, in the order of memory. From
    now on they count as known to the program.
    """
    axes = _open.get()
    if axes is None:
        return []
    found = [*axes.of(value).values()]
    axes.counted.update(found)
    return [axes.counts[name] for name in found]
