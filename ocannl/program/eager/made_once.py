"""Values that functions make of several operations: eager mode finds them without making each again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ocannl.program import graph
from ocannl.program.eager.cells import depth
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.values import Value


def made_once(values: Sequence[Value], how: tuple[Hashable, ...], make: Callable[[], Value]) -> Value:
    """The value that is made of others, or in eager mode the one that was made of them in the same way. What
    memory of known shape tells of theirs is decided first.

    One of a shape that may still be told by other uses is made anew, as is one in the cell of a loop, where
    all that lies between has to be of its iteration, and one with numbers that are data: these are others as
    soon as nothing depends on them.
    """
    if not is_eager() or depth():
        return make()
    found = made_before(values, how)
    if found is not None:
        return found
    for value in values:
        ENGINE.only.decide(value)
    is_known = all(graph.known_shape(value).is_final for value in values)
    made = make()
    # What has its shape whatever those of the others come to be stays the same: a loss, a sum of all.
    if (is_known or graph.known_shape(made).is_final) and RECORDER.has_data_of(made, values):
        RECORDER.note_made(_key(values, how), made)
    return made


def made_before(values: Sequence[Value], how: tuple[Hashable, ...]) -> Value | None:
    """The value that `made_once` has made before; None where it has to be made."""
    return RECORDER.applied.get(_key(values, how)) if is_eager() and not depth() else None


def _key(values: Sequence[Value], how: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return "made", *values, *how
