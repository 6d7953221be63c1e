"""The programs of stages under construction: copies of operations, and the messages between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import count

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import STAGE
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr import ApplyOp, TensorOp
from ocannl.dialects.texpr.collectives import AllGatherOp, AllReduceOp
from ocannl.dialects.texpr.messages import ReceiveOp, SendOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.passes.analysis.projection import whole
from ocannl.passes.texpr.split_stages.microbatches import RANK, Microbatches, mentions, set_index
from ocannl.passes.texpr.split_stages.stages import Stages

At = tuple[SSAValue, int | None]
"""A value, of a microbatch or of all of them."""


@dataclass
class StageProgram:
    """The operations of one stage: expressions, and the statements that say when they are computed."""

    expressions: list[Operation] = field(default_factory=list[Operation])
    statements: list[Operation] = field(default_factory=list[Operation])
    copies: dict[At, SSAValue] = field(default_factory=dict[At, SSAValue])


@dataclass
class Emission:
    """Copies what stages need. What another stage computes is received from it, once, until it changes."""

    stages: Stages
    microbatches: Microbatches
    parts: int
    """The number of microbatches."""
    taken: frozenset[str]
    programs: list[StageProgram] = field(init=False)
    numbers: dict[tuple[At, int], int] = field(default_factory=dict[tuple[At, int], int])
    """The numbers of messages that are sent to a stage."""
    _next: Iterator[int] = field(default_factory=count)
    _own_maps: dict[Operation, bool] = field(default_factory=dict[Operation, bool])

    def __post_init__(self) -> None:
        self.programs = [StageProgram() for _ in range(self.stages.count)]

    def holders(self, value: SSAValue) -> Sequence[int]:
        """The stages that compute or hold a value."""
        stage = self.stages.of(value)
        return range(self.stages.count) if stage is None else (stage,)

    def at(self, value: SSAValue, part: int | None, stage: int) -> SSAValue:
        """A value as a stage has it, with what it needs before it."""
        copies, stack = self.programs[stage].copies, [(self._key(value, part), False)]
        while stack:
            key, ready = stack.pop()
            if key in copies:
                continue
            if stage not in self.holders(key[0]):
                self._receive(key, stage)
            elif ready:
                self._copy(key, stage)
            else:
                stack += [(key, True), *((need, False) for need in reversed(self._needs(key)))]
        return copies[self._key(value, part)]

    def send(self, value: SSAValue, part: int | None, target: int) -> None:
        """The stage that has a value sends it to another."""
        (stage,) = self.holders(value)
        own = self.at(value, part, stage)
        op = SendOp(own, self._number(self._key(value, part), target), target, STAGE)
        self.state(stage, op, _operation(value))

    def state(self, stage: int, op: Operation, source: Operation) -> None:
        """Adds a statement to the program of a stage."""
        op.location = source.location
        self.programs[stage].statements.append(op)

    def forget(self, values: set[SSAValue], stages: Sequence[int]) -> None:
        """Copies of these are made anew where they are needed again."""
        for stage in stages:
            copies = self.programs[stage].copies
            for key in [key for key in copies if key[0] in values]:
                del copies[key]
        for key in [key for key in self.numbers if key[0][0] in values and key[1] in stages]:
            del self.numbers[key]

    def _key(self, value: SSAValue, part: int | None) -> At:
        return value, part if value in self.microbatches.own else None

    def _number(self, key: At, target: int) -> int:
        if (key, target) not in self.numbers:
            self.numbers[key, target] = next(self._next)
        return self.numbers[key, target]

    def _needs(self, key: At) -> list[At]:
        value, part = key
        if value in self.microbatches.joined:
            return [(self.microbatches.joined[value].tensor, number) for number in range(self.parts)]
        return [self._key(operand, part) for operand in _operation(value).operands]

    def _receive(self, key: At, stage: int) -> None:
        value = key[0]
        if value not in self.microbatches.own:
            self.send(value, None, stage)
        (start,) = self.holders(value)
        op = ReceiveOp(self._number(key, stage), start, STAGE, tensor_type(value))
        self._add(op, key, stage)

    def _add(self, op: TensorOp, key: At, stage: int) -> None:
        value, part = key
        op.location = _operation(value).location
        hint = value.name_hint
        op.result.name_hint = hint if part is None or hint is None else f"{hint}_m{part}"
        self.programs[stage].expressions.append(op)
        self.programs[stage].copies[key] = op.result

    def _copy(self, key: At, stage: int) -> None:
        value, part = key
        program, source = self.programs[stage], _operation(value)
        if (joined := self.microbatches.joined.get(value)) is not None:
            self._add(self._joined(joined, stage), key, stage)
            return
        operands = {operand: program.copies[self._key(operand, part)] for operand in source.operands}
        copy = copied(source, operands)
        if isinstance(copy, ApplyOp):
            copy.properties.pop("stages", None)
        if part is not None and self._mentions_rank(source):
            set_index(copy, RANK, part)
        program.expressions.append(copy)
        for result, own in zip(source.results, copy.results, strict=True):
            program.copies[result, part] = own
            hint = result.name_hint
            own.name_hint = hint if part is None or hint is None else f"{hint}_m{part}"

    def _mentions_rank(self, source: Operation) -> bool:
        """Whether an operation, of which all microbatches have copies, has the number of one in its maps."""
        if source not in self._own_maps:
            self._own_maps[source] = mentions(source, RANK)
        return self._own_maps[source]

    def _joined(self, op: AllReduceOp | AllGatherOp, stage: int) -> ApplyOp:
        """The value that comes from all microbatches, as an operation with a part for each."""
        sizes, axis = shape_of(op.tensor).memory_sizes, op.source.data if isinstance(op, AllGatherOp) else 0
        parts: list[Part] = []
        for number in range(self.parts):
            value = self.programs[stage].copies[op.tensor, number]
            maps, space = whole(sizes, self.taken)
            target: Map = maps
            if isinstance(op, AllGatherOp):
                place = maps[axis] + Linear((), number * sizes[axis])
                target = (*maps[:axis], place, *maps[axis + 1 :])
            parts.append(Part(Combination.of(Arg(0), [value], [maps]), target, space))
        accum = op.accum.data if isinstance(op, AllReduceOp) else None
        return ApplyOp.of_parts(parts, tensor_type(op.result), accum)


def _operation(value: SSAValue) -> Operation:
    op = value.owner
    assert isinstance(op, Operation)
    return op
