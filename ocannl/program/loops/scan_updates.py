"""Code that belongs to expressions of a cell: the memory that it sets is carried through the iterations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.scalar.terms import Arg
from ocannl.program.code import Code, emit
from ocannl.program.expressions import apply
from ocannl.program.module.needed import needed_for
from ocannl.program.tensor import Tensor, assign
from ocannl.program.updates import add_update
from ocannl.program.values import Value, label_of, value_of, values_of


@dataclass
class CarriedMemory:
    """Memory that each iteration sets once.

    Attributes:
        before: what memory is that other scans have set.
        memory: what is set.
        begin: what each is before the first iteration.
        new: what each is set to, through which no gradient goes.
        owners: the operations to which such code belongs.
    """

    before: Mapping[Value, Value]
    memory: list[Value] = field(default_factory=list[Value])
    begin: list[Value] = field(default_factory=list[Value])
    new: list[Value] = field(default_factory=list[Value])
    owners: set[Operation] = field(default_factory=set[Operation])

    @staticmethod
    def of(values: Sequence[Value], since: int, before: Mapping[Value, Value]) -> CarriedMemory:
        """That of what a cell made, since it began, for values; `before` is what memory is that other scans
        have set. Raises `OcannlError` for code that does more
        than set whole memory once, to what depends on no other memory that is set.
        """
        found = CarriedMemory(before)
        for op in needed_for(values):
            value = value_of(op)
            if value.updates is not None and value.made > since:
                found.owners.add(op)
                found._add_all(op, value.updates.statements)
        return found

    def _add_all(self, owner: texpr.TensorOp, statements: Sequence[Operation]) -> None:
        kept = set[Value]()
        for statement in statements:
            if isinstance(statement, texpr.ForwardOp) and statement.keep is not None:
                kept.update(values_of(statement))
            elif not isinstance(statement, texpr.CommentOp):
                self._add(owner, statement, kept)

    def _add(self, owner: texpr.TensorOp, statement: Operation, kept: Collection[Value]) -> None:
        if not is_plain(statement):
            self._refuse(owner, "does more than set memory")
        target, value = values_of(statement)
        if target in self.memory:
            self._refuse(owner, f"sets `{label_of(target)}` twice")
        earlier = {memory.op: memory for memory in self.memory}
        read = [earlier[op] for op in needed_for([value]) if op in earlier]
        if read and value not in kept:
            self._refuse(owner, f"reads `{label_of(read[0])}` after it has set it")
        self.memory.append(target)
        self.begin.append(constant(self.before.get(target, target), target))
        self.new.append(constant(value, target))

    def _refuse(self, owner: texpr.TensorOp, why: str) -> None:
        name = label_of(value_of(owner))
        message = f"code belongs to `{name}`, which a scan cannot run in each iteration: it {why}"
        raise OcannlError(at_line(owner, message))

    def set_after(self, result: Value, last: Sequence[Value]) -> None:
        """Lets what depends on the result of the scan set memory to what the last iteration gave: all of that
        is computed before any memory is set, and derivatives of the scan go on with what it was before.
        """
        if self.memory:
            pairs = zip(self.memory, last, strict=True)
            kept = [emit(texpr.ForwardOp(value, keep=True)) for value in (*self.begin, *last)]
            add_update(
                Tensor(result), sum((assign(Tensor(m), Tensor(v)) for m, v in pairs), sum(kept, Code()))
            )


def is_plain(statement: Operation) -> bool:
    """Whether a statement sets all of memory to an expression of its shape."""
    if not isinstance(statement, texpr.AssignOp):
        return False
    is_whole = statement.at is None and statement.accum is None and statement.reset is None
    return is_whole and statement.logic is not None and statement.logic.data == "."


def constant(value: Value, memory: Value) -> Value:
    """A value of memory, through which no gradient goes."""
    return apply(Arg(0), [value], logic=".", stop=True, label=memory.name_hint or "memory")
