"""Whether a routine reads nodes that nobody has written, and the error for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import UninitializedError, location_text
from ocannl.execute.node import Node
from ocannl.passes.texpr.infer_shapes.descriptions import describe
from ocannl.program.extract import ExtractedRoutine, origin_of
from ocannl.program.values import Value, operation_of
from ocannl.runtime.interface import Interface

STATE = ("node", "gradient")


def check_written(
    routine: str, program: ExtractedRoutine, interface: Interface, nodes: Mapping[str, Node]
) -> None:
    """Raises `UninitializedError` where a run reads a node that nobody has written."""
    facts = interface.facts

    def unset(labels: Iterable[str]) -> list[tuple[str, str]]:
        found = [label for label in sorted(labels) if label in nodes and not nodes[label].written]
        return [(label, interface.nodes[label].why) for label in found]

    # State that a routine updates from its own value, such as a momentum, is zero before the first run.
    missing = [label for label, why in unset(facts.reads) if label not in facts.writes or why not in STATE]
    missing += [label for label, why in unset(facts.parts) if why == "parameter"]
    for label in missing:
        raise _unwritten(routine, label, missing, *origin_of(program, label))


def _unwritten(
    routine: str, label: str, missing: Sequence[str], value: Value, is_gradient: bool
) -> UninitializedError:
    """The error of a routine, with the user's line where the node belongs to an expression, and how many more
    are missing.
    """
    op = operation_of(value)
    where = location_text(op)
    what = f"`{label}`" if where is None else f"`{label}` (made at {where}),"
    if isinstance(op, texpr.ApplyOp | texpr.SliceOp):
        of = "gradient" if is_gradient else "value"
        what = f"the {of} of `{describe(op)}`, made at {where},"
    more = f" (nor {len(missing) - 1} more)" if len(missing) > 1 else ""
    return UninitializedError(
        f"routine {routine!r} reads {what} which nobody has written{more}{_advice(op, is_gradient)}"
    )


def _advice(op: object, is_gradient: bool) -> str:
    if is_gradient:
        return ": zero the gradients first, as train.grad_update does"
    if isinstance(op, texpr.ParamOp):
        return ": initialize parameters by ctx.init_params(...), or set it by ctx[...] = array"
    if isinstance(op, texpr.MemoryOp):
        return ": set it by ctx[...] = array, or in code"
    return ": run a routine that computes it first"
