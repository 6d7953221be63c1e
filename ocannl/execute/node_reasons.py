"""Why a routine keeps a node as it does, and how it computes it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Space
from ocannl.dialects.ir.errors import OcannlError, location_text
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.passes.analysis.fusion_legality import NestSummary, why_apart
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
            lines = (*_lines(func, label), *_neighbours(func, label))
            return Reasons(answer, lines or tuple(_written(func, label)))
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


def _written(func: FuncOp, label: str) -> Iterator[Line]:
    """Where a node was written that no nest touches: its value is computed by those that use it."""
    for op in func.walk():
        if isinstance(op, NodeOp) and op.label.data == label:
            yield Line(location_text(op), "it is written here")


def writers(func: FuncOp, label: str) -> list[NestOp]:
    """The nests that store to a node."""
    found = [op for op in func.walk() if isinstance(op, StoreOp) and _label(op) == label]
    return list(dict.fromkeys(nest for nest in map(nest_around, found) if nest is not None))


def nest_around(op: Operation) -> NestOp | None:
    """The nest that an operation is in."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, NestOp):
        parent = parent.parent_op()
    return parent


def _neighbours(func: FuncOp, label: str) -> Iterator[Line]:
    """Why the nests that compute a node are not one with those that run before and after them."""
    for nest in writers(func, label):
        for when, other in (("before", nest.prev_op), ("after", nest.next_op)):
            if not isinstance(other, NestOp):
                continue
            pair = (other, nest) if when == "before" else (nest, other)
            reason = why_apart(*map(NestSummary.of, pair))
            if reason is not None:
                text = f"{nest.label.data!r} is not one with {other.label.data!r} {when} it, since {reason}"
                yield Line(location_text(nest), text)


def _label(op: LoadOp | StoreOp) -> str | None:
    return op.node.owner.label.data if isinstance(op.node.owner, NodeOp) else None


def _space(space: Space) -> str:
    return f" over {' '.join(f'{name}={size}' for name, size in space)}" if space else ""
