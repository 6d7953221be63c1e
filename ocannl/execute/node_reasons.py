"""Why a routine keeps a node as it does, and how it computes it."""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Space
from ocannl.dialects.ir.errors import OcannlError, location_text
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.passes.analysis.memory import memory_report
from ocannl.program.reasons import Line, Reasons

SAID = {
    "virtual": "has no memory",
    "local": "has memory inside of a run",
    "on_device": "has memory that stays between runs",
    "constant": "has memory that no run writes",
}


def node_reasons(func: FuncOp, label: str) -> Reasons:
    """The memory mode of a node of a function and why, its place, and the kernels that compute and read it
    with their schedules. Raises `OcannlError` where the function has no such node.
    """
    for row in memory_report(func):
        if row.label == label:
            place = "" if row.offset is None else f", {row.bytes} bytes at {row.offset} of the arena"
            answer = f"`{label}` {SAID.get(row.mode, row.mode)}{place}: {row.why}"
            return Reasons(answer, tuple(_lines(func, label)))
    known = ", ".join(row.label for row in memory_report(func))
    raise OcannlError(f"the routine has no node `{label}`; there are {known}")


def _lines(func: FuncOp, label: str) -> Iterator[Line]:
    for nest in (op for op in func.walk() if isinstance(op, NestOp)):
        touching = [op for op in nest.walk() if isinstance(op, LoadOp | StoreOp)]
        own = [op for op in touching if _label(op) == label]
        if own:
            writes = any(isinstance(op, StoreOp) for op in own)
            schedule = "" if nest.schedule is None else f", scheduled as {schedule_text(nest.schedule.data)}"
            space = _space(nest.space.data)
            text = f"{'computed' if writes else 'read'} in the nest {nest.label.data!r}{space}{schedule}"
            yield Line(location_text(own[0]) or location_text(nest), text)


def _label(op: LoadOp | StoreOp) -> str | None:
    return op.node.owner.label.data if isinstance(op.node.owner, NodeOp) else None


def _space(space: Space) -> str:
    return f" over {' '.join(f'{name}={size}' for name, size in space)}" if space else ""
