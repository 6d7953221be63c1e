"""Values that functions make of several operations: eager mode finds them without making each again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ocannl.program import graph
from ocannl.program.eager.recorder import ENGINE, RECORDER, depth, is_eager
from ocannl.program.values import Value


def made_once(values: Sequence[Value], how: tuple[Hashable, ...], make: Callable[[], Value]) -> Value:
    """The value that is made of others, or in eager mode the one that was made of them in the same way.

    One of a shape that may still be told by other uses is made anew, as is one in the cell of a loop, where
    all that lies between has to be of its iteration, and one with numbers that are data: these are others as
    soon as nothing depends on them.
    """
    if not is_eager() or depth():
        return make()
    for value in values:
        ENGINE.only.decide(value)
    if not all(value.is_settled or graph.known_shape(value).is_final for value in values):
        return make()
    key = ("made", *values, *how)
    found = RECORDER.applied.get(key)
    if found is None:
        found = make()
        if RECORDER.has_data_of(found, values):
            RECORDER.applied[key] = found
    return found
