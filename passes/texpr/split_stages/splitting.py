"""The statements of a routine, given to its stages; those over all microbatches become a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr import AssignOp, CommentOp, ForwardOp, MemoryOp, OfOp, TensorOp
from ocannl.dialects.texpr.messages import ComputePartOp
from ocannl.passes.analysis.pipeline_schedules import FORWARD, Schedule, slots
from ocannl.passes.texpr.split_stages.emission import Emission
from ocannl.passes.texpr.split_stages.microbatches import Microbatches
from ocannl.passes.texpr.split_stages.stages import Stages, memory_key


@dataclass
class Splitting:
    """Goes through the statements in order. Those that need what all microbatches give wait for each other,
    as far as nothing that is written between them changes what they compute: then microbatches go through
    the stages once for all of them.
    """

    ops: Sequence[Operation]
    stages: Stages
    microbatches: Microbatches
    emission: Emission
    schedule: Schedule
    reads: dict[SSAValue, frozenset[SSAValue]] = field(default_factory=dict[SSAValue, frozenset[SSAValue]])
    """The memory that each value depends on."""
    waiting: list[Operation] = field(default_factory=list[Operation])
    fresh: set[SSAValue] = field(default_factory=set[SSAValue])
    """The joined values that are computed, and have not changed since."""
    done: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that microbatches have computed."""
    held: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that hold for the rest of the routine."""

    def run(self) -> None:
        for op in self.ops:
            if isinstance(op, TensorOp):
                own = [memory_key(op.result)] if isinstance(op, MemoryOp | OfOp) else list[SSAValue]()
                of_operands = () if own else [self.reads[value] for value in op.operands]
                self.reads.update(dict.fromkeys(op.results, frozenset(own).union(*of_operands)))
        for op in self.ops:
            if not isinstance(op, TensorOp):
                self._statement(op)
        self._flush()

    def _statement(self, op: Operation) -> None:
        if isinstance(op, CommentOp) and self.waiting:
            self.waiting.append(op)
            return
        needs_all = bool(self._joined(_read(op)))
        if self.waiting and self._clashes(op, needs_all):
            self._flush()
        if needs_all:
            self.waiting.append(op)
        else:
            self._emit(op)

    def _joined(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        """The joined values of stages that are needed, and are not computed yet."""
        found, seen, stack = list[SSAValue](), set[SSAValue](), [*values]
        while stack:
            value = stack.pop()
            if value in seen or value in self.held or value not in self.microbatches.after:
                continue
            seen.add(value)
            if value in self.microbatches.joined:
                found += [] if value in self.fresh else [value]
            else:
                owner = value.owner
                assert isinstance(owner, Operation)
                stack += owner.operands
        return found

    def _clashes(self, op: Operation, needs_all: bool) -> bool:
        """Whether a statement cannot be computed before those that wait, nor wait with them."""
        waiting = [own for own in self.waiting if not isinstance(own, CommentOp)]
        written = {memory for own in waiting for memory in _written(own)}
        read = {memory for own in waiting for value in _read(own) for memory in self.reads[value]}
        own_reads = {memory for value in _read(op) for memory in self.reads[value]}
        if own_reads & written:
            return True
        return not needs_all and not (written | read).isdisjoint(_written(op))

    def _emit(self, op: Operation) -> None:
        """Copies a statement to the stages that compute it."""
        if isinstance(op, AssignOp):
            stages = self.emission.holders(memory_key(op.target))
        elif isinstance(op, ForwardOp):
            stages = self.emission.holders(op.tensor)
        else:
            stages = range(self.stages.count)
        for stage in stages:
            operands = {value: self.emission.at(value, None, stage) for value in op.operands}
            self.emission.state(stage, copied(op, operands), op)
        self._note(op)

    def _note(self, op: Operation) -> None:
        """Notes what a statement changes."""
        written = set(_written(op))
        if isinstance(op, ForwardOp) and op.keep is not None:
            self.held.add(op.tensor)
        if isinstance(op, AssignOp):
            stale = {v for v, memory in self.reads.items() if memory & written and v not in self.held}
            self.fresh -= stale
            others = {*range(self.stages.count)} - {*self.emission.holders(memory_key(op.target))}
            self.emission.forget({v for v in stale if not isinstance(v.owner, MemoryOp | OfOp)}, [*others])
            received = {v for v in stale if isinstance(v.owner, MemoryOp | OfOp)}
            for value in received:
                self.emission.forget({value}, [*others - {*self.emission.holders(value)}])

    def _flush(self) -> None:
        """Sends all microbatches through the stages, and computes the statements that wait."""
        waiting, self.waiting = self.waiting, []
        joined = [*dict.fromkeys(j for op in waiting for j in self._joined(_read(op)))]
        joined = [value for value in self.microbatches.joined if value in joined]
        if joined:
            self._send_through(joined)
        for op in waiting:
            self._emit(op)

    def _send_through(self, joined: Sequence[SSAValue]) -> None:
        every = range(self.stages.count)
        needed = self._needed(joined)
        self._go_once([*joined, *(value for op in needed for value in op.results)])
        crossing = self._crossing(needed)
        for op in needed:
            for value in op.operands:
                for stage in self.emission.holders(op.results[0]):
                    if value not in self.microbatches.own and self.stages.of(op.results[0]) is not None:
                        self.emission.at(value, None, stage)
        for stage in every:
            own = [value for value in joined if self.stages.of(value) == stage]
            for value in own:
                self.emission.at(value, None, stage)
            self._schedule(stage, own, [pair for pair in crossing if self.stages.of(pair[0]) == stage])
        self.fresh.update(joined)

    def _go_once(self, values: Sequence[SSAValue]) -> None:
        again = [value for value in values if value in self.done]
        if again:
            owner = again[0].owner
            assert isinstance(owner, Operation)
            message = (
                "microbatches compute this twice in one routine, as memory that it reads is written between: "
                "compile what comes after that as a routine of its own"
            )
            raise OcannlError(at_line(owner, message))
        self.done.update(values)

    def _schedule(self, stage: int, joined: Sequence[SSAValue], sent: Sequence[tuple[SSAValue, int]]) -> None:
        """The turns of microbatches in a stage."""
        turns = self.microbatches.own
        for turn, number in slots(stage, self.stages.count, self.emission.parts, self.schedule):
            for value, target in sent:
                if turns[value] == turn:
                    self.emission.send(value, number, target)
            for value in joined:
                op = self.microbatches.joined[value]
                if turns.get(op.tensor, FORWARD) == turn:
                    own = self.emission.at(value, None, stage)
                    self.emission.state(stage, ComputePartOp(own, number), op)

    def _needed(self, joined: Sequence[SSAValue]) -> list[Operation]:
        """The operations of microbatches that joined values need, in program order."""
        found, stack = set[Operation](), [self.microbatches.joined[value].tensor for value in joined]
        while stack:
            value = stack.pop()
            owner = value.owner
            if value in self.microbatches.own and owner not in found and isinstance(owner, Operation):
                found.add(owner)
                stack += owner.operands
        return [op for op in self.ops if op in found]

    def _crossing(self, needed: Sequence[Operation]) -> list[tuple[SSAValue, int]]:
        """The values of microbatches that another stage reads, with that stage, in program order."""
        found: dict[tuple[SSAValue, int], None] = {}
        for op in needed:
            target = self.stages.of(op.results[0])
            for value in op.operands:
                start = self.stages.of(value)
                if value in self.microbatches.own and target is not None and start not in (None, target):
                    found[value, target] = None
        return [*found]


def _read(op: Operation) -> Sequence[SSAValue]:
    """The values that a statement reads."""
    return op.operands[1:] if isinstance(op, AssignOp) else op.operands


def _written(op: Operation) -> Sequence[SSAValue]:
    """The memory that a statement writes."""
    if isinstance(op, AssignOp):
        return [memory_key(op.target)]
    return [op.tensor] if isinstance(op, ForwardOp) else []
