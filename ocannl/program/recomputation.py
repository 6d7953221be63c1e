"""A warning where a block changes what an expression reads, and then computes it again."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import location_text
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.location import warn_at
from ocannl.program.reads import Key, reads_of, written_by
from ocannl.program.values import Value, is_memory, values_of


def warn_of_recomputation(statements: Sequence[Operation]) -> None:
    """Warns of the first expression that a statement uses to write memory which it reads, and that a later
    statement uses again: it has another value there, as the norm has in gradient clipping written naively.
    A statement that runs again is meant to.
    """
    changed: dict[Value, Operation] = {}
    known: dict[Value, frozenset[Key]] = {}
    for statement in dict.fromkeys(statements):
        is_write = isinstance(statement, texpr.AssignOp)
        used = _expressions(statement) if changed or is_write else []
        for value in used:
            if value in changed:
                _warn(value, changed[value], statement)
                return
        if is_write:
            keys = frozenset(written_by(statement))
            changed |= {value: statement for value in used if not keys.isdisjoint(reads_of(value, known))}


def _expressions(statement: Operation) -> list[Value]:
    """The expressions that a statement computes, those that others use included."""
    found: dict[Value, None] = {}
    waiting = [*values_of(statement)]
    while waiting:
        value = waiting.pop()
        if value not in found and not is_memory(value):
            found[value] = None
            waiting += values_of(value.op)
    return list(found)


def _warn(value: Value, write: Operation, again: Operation) -> None:
    message = (
        f"`{describe(value.op)}`, made at {location_text(value.op)}, is computed again here, with another "
        f"value: it reads memory that this block wrote at {location_text(write)}. Keep it in an oc.node"
    )
    warn_at(again.location, message)
