"""A warning where a block changes what an expression reads, and then computes it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import location_text
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.location import warn_at
from ocannl.program.module.reads import Key, reads_of, written_by
from ocannl.program.values import Value, is_memory, values_of


def warn_of_recomputation(statements: Sequence[Operation]) -> None:
    """Warns of the first expression that a statement uses to write memory which it reads, and that a later
    statement uses again: it has another value there, as the norm has in gradient clipping written naively.
    A statement that runs again is meant to.
    """
    changed: dict[Value, Operation] = {}
    same: set[Value] = set()
    """Expressions that are not changed, nor what they use."""
    known: dict[Value, frozenset[Key]] = {}
    ordered = [*dict.fromkeys(statements)]
    for statement in ordered:
        used = _expressions(statement, lambda value: value not in same) if changed else []
        again = next((value for value in used if value in changed), None)
        if again is not None:
            _warn(again, changed[again], statement)
            return
        same.update(used)
        # Nothing comes after the last one, which is often the only one.
        if isinstance(statement, texpr.AssignOp) and statement is not ordered[-1]:
            own = _reading(statement, frozenset(written_by(statement)), known)
            changed |= dict.fromkeys(own, statement)
            if own:
                same.clear()


def _reading(statement: Operation, keys: frozenset[Key], known: dict[Value, frozenset[Key]]) -> list[Value]:
    """The expressions that a statement computes from some memory."""
    return _expressions(statement, lambda value: not keys.isdisjoint(reads_of(value, known)))


def _expressions(statement: Operation, counts: Callable[[Value], bool]) -> list[Value]:
    """The expressions that a statement computes, those that others use included, as far as they and those
    that use them count.
    """
    found: dict[Value, None] = {}
    waiting = [*values_of(statement)]
    while waiting:
        value = waiting.pop()
        if value not in found and not is_memory(value) and counts(value):
            found[value] = None
            waiting += values_of(value.op)
    return list(found)


def _warn(value: Value, write: Operation, again: Operation) -> None:
    message = (
        f"`{describe(value.op)}`, made at {location_text(value.op)}, is computed again here, with another "
        f"value: it reads memory that this block wrote at {location_text(write)}. Keep it in an oc.node"
    )
    warn_at(again.location, message)
