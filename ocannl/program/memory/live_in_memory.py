"""The live-in memory of statements, which they find as an earlier run left it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from ocannl.dialects import texpr
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program import graph
from ocannl.program.module.needed import needed
from ocannl.program.values import Value, value_of, values_of


@dataclass
class LiveInMemory:
    """Memory that statements read before they set it: parameters, nodes, data that they write, and gradients
    and last values.

    What they set first is no state: the next run makes it anew.
    """

    values: dict[Value, None] = field(default_factory=dict[Value, None])
    """The memory, in the order of its first use."""
    updated: set[Value] = field(default_factory=set[Value])
    """Memory that statements write, so that it starts at zero."""
    counters: set[Value] = field(default_factory=set[Value])
    """Memory that counts calls of random numbers."""

    def add(self, statements: Sequence[Operation], result: Value | None = None) -> None:
        """Adds what statements keep, which run in order, and then the computation of a result."""
        _Reader(self, _written(statements)).read_all(statements, result)


def _written(statements: Iterable[Operation]) -> set[Value]:
    """The memory that assignments write."""
    return {_value(s.target) for s in statements if isinstance(s, texpr.AssignOp)}


def _value(value: SSAValue) -> Value:
    assert isinstance(value, Value)
    return value


@dataclass
class _Reader:
    """Goes through statements in their order."""

    kept: LiveInMemory
    written: set[Value]
    done: set[Value] = field(default_factory=set[Value])
    """The memory set and the values computed so far."""

    def read_all(self, statements: Sequence[Operation], result: Value | None) -> None:
        self.kept.updated |= self.written
        for statement in statements:
            self.statement(statement)
        if result is not None:
            self.read(result)

    def statement(self, statement: Operation) -> None:
        match statement:
            case texpr.AssignOp():
                for value in (statement.value, *statement.ids):
                    self.read(_value(value))
                target = _value(statement.target)
                sets_all = (
                    statement.logic is not None and statement.logic.data == "." and statement.at is None
                )
                if statement.reset is None and (statement.accum is not None or not sets_all):
                    self.read(target)
                self.done.add(target)
            case texpr.ZeroGradsOp():
                self.done.update(_gradients(statement))
            case texpr.BackpropOp():
                for gradient in _gradients(statement):
                    self.kept.updated.add(gradient)
                    self.read(gradient)
                self.read(_value(statement.tensor))
            case _:
                for operand in values_of(statement):
                    self.read(operand)

    def read(self, value: Value) -> None:
        """Notes the memory that the computation of a value reads, and what it computes."""
        stack = [value]
        while stack:
            value = stack.pop()
            if value in self.done:
                continue
            self.done.add(value)
            op = value.op
            if isinstance(op, texpr.MergeOp) or (isinstance(op, texpr.DataOp) and value not in self.written):
                continue
            if isinstance(op, texpr.MemoryOp | texpr.GradOp):
                self.kept.values[value] = None
            elif isinstance(op, texpr.ValueOp):
                if values_of(op)[0] not in self.done:
                    self.kept.values[value] = None
            else:
                operands = values_of(op)
                if isinstance(op, UniformOp):
                    self.kept.counters.update(o for o in operands if isinstance(o.op, texpr.NodeOp))
                stack += reversed(operands)


def _gradients(statement: texpr.ZeroGradsOp | texpr.BackpropOp) -> list[Value]:
    """The gradients that were asked for, of what a tensor depends on and of itself."""
    top = _value(statement.tensor)
    sources = [*map(value_of, needed([top.op])), top]
    return [graph.memory_of_tensor(v, texpr.GradOp) for v in sources if texpr.GradOp in v.asked]
