"""The values that each microbatch has, and the turns in which stages compute them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.texpr import OfOp, TensorOp
from ocannl.dialects.texpr.collectives import AllGatherOp, AllReduceOp, CollectiveOp
from ocannl.dialects.texpr.parts import PartAttr
from ocannl.passes.analysis.pipeline_schedules import BACKWARD, FORWARD, Turn
from ocannl.passes.texpr.split_stages.stages import Stages

RANK = f"{MICROBATCH}.rank"
"""The static index that is the number of a microbatch."""


@dataclass
class Microbatches:
    """The values that microbatches have of their own, and those that are `joined` from these of all."""

    ops: Sequence[Operation]
    stages: Stages
    own: dict[SSAValue, Turn] = field(default_factory=dict[SSAValue, Turn])
    """The values of each microbatch, with the turn in which their stage computes them."""
    joined: dict[SSAValue, AllReduceOp | AllGatherOp] = field(
        default_factory=dict[SSAValue, AllReduceOp | AllGatherOp]
    )
    after: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that depend on joined ones of stages, which are there when all microbatches are through."""

    def find(self) -> None:
        """Raises `OcannlError` for what cannot be computed one microbatch after the other."""
        for op in self.ops:
            if isinstance(op, TensorOp):
                self._add(op)

    def _add(self, op: TensorOp) -> None:
        if isinstance(op, OfOp):
            self._check_memory(op)
            return
        is_own = any(value in self.own for value in op.operands) or mentions(op, RANK)
        is_after = any(value in self.after for value in op.operands)
        if isinstance(op, AllReduceOp | AllGatherOp) and _is_over_microbatches(op):
            self._join(op, is_after)
        elif is_own:
            if is_after or any(_is_over_microbatches(inner) for inner in op.walk()):
                raise OcannlError(at_line(op, _needs_all(op)))
            self.own.update(dict.fromkeys(op.results, self._turn(op)))
        elif is_after:
            self.after.update(op.results)

    def _check_memory(self, op: OfOp) -> None:
        if op.source in self.own:
            message = "each microbatch has this of its own, and memory has what is of all"
            raise OcannlError(at_line(op, message))

    def _join(self, op: AllReduceOp | AllGatherOp, is_after: bool) -> None:
        if is_after:
            raise OcannlError(at_line(op, _needs_all(op)))
        if op.tensor in self.own:
            self.joined[op.result] = op
            if self.stages.of(op.result) is not None:
                self.after.add(op.result)

    def _turn(self, op: TensorOp) -> Turn:
        stage = self.stages.of(op.results[0])
        turn: Turn = FORWARD
        for value in op.operands:
            start = self.stages.of(value)
            if value not in self.own or start is None or stage is None:
                continue
            if start < stage and self.own[value] == BACKWARD:
                message = "microbatches go forward and backward through the stages once, and this again"
                raise OcannlError(at_line(op, message))
            if start > stage or self.own[value] == BACKWARD:
                turn = BACKWARD
        return turn


def _is_over_microbatches(op: Operation) -> bool:
    return isinstance(op, CollectiveOp) and op.mesh.data == MICROBATCH


def _needs_all(op: Operation) -> str:
    name = f"`{op.results[0].name_hint}`" if op.results[0].name_hint else "this"
    return (
        f"{name} needs all microbatches, which are computed one after the other: what normalizes by "
        "statistics of the batch, as batch_norm does, cannot be divided into microbatches"
    )


def mentions(op: Operation, name: str) -> bool:
    """Whether index maps of an operation have a static index."""
    return any(
        index.coefficient(name)
        for inner in op.walk()
        for attribute in inner.properties.values()
        for index in _indices(attribute)
    )


def _indices(attribute: Attribute) -> Iterator[Linear]:
    if isinstance(attribute, MapAttr):
        yield from attribute.data
    elif isa(attribute, ArrayAttr[Attribute]):
        for inner in attribute.data:
            yield from _indices(inner)
    elif isinstance(attribute, PartAttr):
        yield from attribute.result_map.data


def set_index(op: Operation, name: str, number: int) -> None:
    """Gives a static index a value, in all index maps of an operation."""
    values = {name: Linear((), number)}
    for inner in op.walk():
        for key, attribute in inner.properties.items():
            if any(index.coefficient(name) for index in _indices(attribute)):
                inner.properties[key] = _substituted(attribute, values)


def _substituted(attribute: Attribute, values: dict[str, Linear]) -> Attribute:
    if isinstance(attribute, MapAttr):
        return MapAttr(tuple([index.substitute(values) for index in attribute.data]))
    if isa(attribute, ArrayAttr[Attribute]):
        return ArrayAttr([_substituted(inner, values) for inner in attribute.data])
    assert isinstance(attribute, PartAttr)
    result_map = MapAttr(tuple([index.substitute(values) for index in attribute.result_map.data]))
    return PartAttr(attribute.term, result_map, attribute.space)
