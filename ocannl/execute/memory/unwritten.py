"""Whether a routine reads nodes that nobody has written, and the error for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import UninitializedError, location_text
from ocannl.execute.memory.no_value import advice
from ocannl.execute.memory.node import Node
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.location import here
from ocannl.program.module.extract import ExtractedRoutine, origin_of
from ocannl.program.values import Value, operation_of
from ocannl.runtime.interface import Interface

STATE = ("node", "gradient")
NAMED = 3
"""So many nodes are named, and others are counted."""


def check_written(
    routine: str, program: ExtractedRoutine, interface: Interface, nodes: Mapping[str, Node], context: object
) -> None:
    """Raises `UninitializedError` where a run in a context reads a node that nobody has written."""
    facts = interface.facts

    def unset(labels: Iterable[str]) -> list[tuple[str, str]]:
        found = [label for label in sorted(labels) if label in nodes and not nodes[label].written]
        return [(label, interface.nodes[label].why) for label in found]

    # State that a routine updates from its own value, such as a momentum, is zero before the first run.
    missing = [label for label, why in unset(facts.reads) if label not in facts.writes or why not in STATE]
    missing += [label for label, why in unset(facts.parts) if why == "parameter"]
    if missing:
        raise _unwritten(routine, missing, context, *origin_of(program, missing[0]))


def _unwritten(
    routine: str, missing: Sequence[str], context: object, value: Value, is_gradient: bool
) -> UninitializedError:
    """The error of a routine: the first missing node with its line, and the names of others."""
    op = operation_of(value)
    where = location_text(op)
    what = f"`{missing[0]}`"
    if isinstance(op, texpr.ApplyOp | texpr.SliceOp):
        what = f"the {'gradient' if is_gradient else 'value'} of `{describe(op)}`"
    others = [f"`{label}`" for label in missing[1:NAMED]]
    if len(missing) > NAMED:
        others.append(f"{len(missing) - NAMED} more")
    found = [what if where is None else f"{what} (made at {where})", *others]
    lack = "which has no value yet" if len(found) == 1 else "which have no values yet"
    names = ", ".join(found[:-1]) + " and " * (len(found) > 1) + found[-1]
    way = advice(op, context, is_gradient)
    return UninitializedError(here(f"routine {routine!r} reads {names}, {lack}: {way}"))
