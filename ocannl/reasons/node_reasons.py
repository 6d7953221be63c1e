"""Why a routine keeps its nodes as it does, and how it computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import Space
from ocannl.dialects.ir.errors import OcannlError, location_text
from ocannl.dialects.ir.origins import at, name_of, origins
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.kernel.launch import COPY
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, LoadOp, NestOp, RepeatOp, StoreOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.passes.analysis.dataflow.memory import NodeMemory, memory_report
from ocannl.passes.analysis.fusion.fusion_legality import NestSummary, why_apart
from ocannl.passes.analysis.nests import accesses, nests_of
from ocannl.program.why.reasons import Line, Reasons

SAID = {
    "virtual": "has no memory",
    "local": "has memory inside of a run",
    "on_device": "has memory that stays between runs",
    "constant": "has memory that no run writes",
}
Origin: TypeAlias = tuple[str | None, str, int] | None
Computing: TypeAlias = NestOp | LaunchOp
# A value that is computed where it is used may be so in many places.
MOST_PLACES = 5


@dataclass(frozen=True)
class Touch:
    """A nest or kernel that reads or writes a node, in a function or in the body of a loop that it runs."""

    step: Computing
    place: str | None
    writes: bool
    loops: tuple[RepeatOp, ...] = ()
    """The loops around it, the outermost first."""

    def line(self) -> Line:
        often = "".join(f", {loop.count.data} times by the loop @{loop.body.data}" for loop in self.loops)
        does = "computed" if self.writes else "read"
        return Line(self.place, f"{does} in {titled(self.step)}{_schedule(self.step)}{often}")


class NodeReasons:
    """Why a function keeps each of its nodes as it does, and how it computes it."""

    def __init__(self, func: FuncOp) -> None:
        self.rows: dict[str, NodeMemory] = {row.label: row for row in memory_report(func)}
        self._declared: dict[str, NodeOp] = {}
        for op in func.walk():
            if isinstance(op, NodeOp):
                self._declared.setdefault(op.label.data, op)
        self._touches: dict[str, list[Touch]] = {}
        self._others: dict[str, list[Line]] = {}
        self._apart: dict[tuple[NestOp, NestOp], str | None] = {}
        self._computing: dict[Origin, list[Computing]] = {}
        self._read_steps(func, (), {label: label for label in self.rows})

    def of(self, label: str) -> Reasons:
        """The memory mode of a node and why, its place, and the nests that compute and read it with their
        schedules. Raises `OcannlError` where the function has no such node.
        """
        row = self.rows.get(label)
        if row is None:
            raise OcannlError(f"the routine has no node `{label}`; there are {', '.join(self.rows)}")
        place = "" if row.offset is None else f", {row.bytes} bytes at {row.offset} of the arena"
        answer = f"`{label}` {SAID.get(row.mode, row.mode)}{place}: {row.why}"
        lines = [touch.line() for touch in self._touches.get(label, ())]
        lines += [*self._others.get(label, ()), *self._neighbours(label)]
        return Reasons(answer, tuple(lines or self._inlined(label)))

    def writers(self, label: str) -> list[NestOp]:
        """The nests of the function, not of loops' bodies, that store to a node."""
        own = [touch.step for touch in self._touches.get(label, ()) if touch.writes and not touch.loops]
        return [step for step in own if isinstance(step, NestOp)]

    def _read_steps(self, func: FuncOp, loops: tuple[RepeatOp, ...], known: Mapping[str, str]) -> None:
        """Notes what the steps of a function touch; `known` names of its nodes are those of other ones."""
        for step in func.steps:
            if isinstance(step, RepeatOp):
                given = zip(step.labels.data, step.inputs, strict=False)
                if step.workspace is not None:
                    often = f"used by the loop @{step.body.data} in each of {step.count.data} iterations"
                    self._note(known, step.workspace, Line(location_text(step), often))
                inner = {label.data: known.get(_label_of(node.owner), "") for label, node in given}
                self._read_steps(step.func, (*loops, step), {a: b for a, b in inner.items() if b})
            elif isinstance(step, CollectiveOp):
                line = Line(location_text(step), f"exchanged by {step.kind.data} over {step.mesh.data}")
                for node in step.nodes:
                    self._note(known, node, line)
            elif isinstance(step, LaunchOp):
                self._read_kernel(step, loops, known)
            elif isinstance(step, NestOp | GroupOp):
                for nest in nests_of(step):
                    self._read_nest(nest, loops, known)

    def _note(self, known: Mapping[str, str], node: SSAValue, line: Line) -> None:
        self._others.setdefault(known.get(_label_of(node.owner), ""), []).append(line)

    def _read_nest(self, nest: NestOp, loops: tuple[RepeatOp, ...], known: Mapping[str, str]) -> None:
        touched: dict[str, list[LoadOp | StoreOp]] = {}
        for op in accesses(nest):
            touched.setdefault(known.get(_label_of(op.node.owner), ""), []).append(op)
        for label, own in touched.items():
            place = location_text(own[0]) or location_text(nest)
            writes = any(isinstance(op, StoreOp) for op in own)
            self._touches.setdefault(label, []).append(Touch(nest, place, writes, loops))
        self._read_expressions(nest)

    def _read_kernel(self, kernel: LaunchOp, loops: tuple[RepeatOp, ...], known: Mapping[str, str]) -> None:
        touched: dict[str, list[tuple[Operation, bool]]] = {}
        for op in kernel.walk():
            for node, writes in nodes_in(op):
                touched.setdefault(known.get(node.label.data, ""), []).append((op, writes))
        for label, own in touched.items():
            place = location_text(own[0][0]) or location_text(kernel)
            touch = Touch(kernel, place, any(writes for _, writes in own), loops)
            self._touches.setdefault(label, []).append(touch)
        self._read_expressions(kernel)

    def _read_expressions(self, step: Computing) -> None:
        for op in step.walk():
            if isinstance(op, LoadOp):
                continue
            known = self._computing.setdefault(_made_for(op), [])
            if not known or known[-1] is not step:
                known.append(step)

    def _neighbours(self, label: str) -> Iterator[Line]:
        """Why the nests that compute a node are not one with those that run before and after them."""
        for nest in self.writers(label):
            for when, other in (("before", nest.prev_op), ("after", nest.next_op)):
                if not isinstance(other, NestOp):
                    continue
                reason = self._why_apart(*((other, nest) if when == "before" else (nest, other)))
                if reason is not None:
                    text = (
                        f"{nest.label.data!r} is not one with {other.label.data!r} {when} it, since {reason}"
                    )
                    yield Line(location_text(nest), text)

    def _why_apart(self, first: NestOp, second: NestOp) -> str | None:
        if (first, second) not in self._apart:
            self._apart[first, second] = why_apart(NestSummary.of(first), NestSummary.of(second))
        return self._apart[first, second]

    def _inlined(self, label: str) -> Iterator[Line]:
        """The nests or kernels with the expression of a node that none touches; without one, where it was
        written.
        """
        node = self._declared[label]
        place, found = location_text(node), self._computing.get(_made_for(node), [])
        for step in found[:MOST_PLACES]:
            yield Line(place, f"its expression is part of {titled(step)}")
        if len(found) > MOST_PLACES:
            kind = "nests" if isinstance(found[0], NestOp) else "kernels"
            yield Line(place, f"and of {len(found) - MOST_PLACES} other {kind}")
        if not found:
            yield Line(place, "it is written here")


def _made_for(op: Operation) -> Origin:
    """The expression and the line that an operation was made for."""
    for origin in origins(op.location)[:1]:
        place = at(origin)
        return None if place is None else (name_of(origin), place.filename.data, place.line.data)
    return None


def _label_of(op: object) -> str:
    return op.label.data if isinstance(op, NodeOp) else ""


def _space(space: Space) -> str:
    return f" over {' '.join(f'{name}={size}' for name, size in space)}" if space else ""


def titled(step: Computing) -> str:
    """A nest or kernel in a sentence."""
    if isinstance(step, NestOp):
        return f"the nest {step.label.data!r}{_space(step.space.data)}"
    blocks = "one block" if step.blocks == 1 else f"{step.blocks} blocks"
    return f"the kernel {step.label.data!r} of {blocks} of {step.all_threads} threads"


def _schedule(step: Computing) -> str:
    if isinstance(step, NestOp):
        return "" if step.schedule is None else f", scheduled as {schedule_text(step.schedule.data)}"
    return f", with {step.shared_bytes} bytes of shared memory" if step.shared_bytes else ""


def nodes_in(op: Operation) -> Iterator[tuple[NodeOp, bool]]:
    """The nodes that an operation of a kernel touches, each with whether it is written."""
    for place, value in enumerate(op.operands):
        if isinstance(value.owner, NodeOp):
            is_target = op.name == COPY and place == 1
            yield value.owner, is_target or (isinstance(op, StoreOp) and op.node is value)
