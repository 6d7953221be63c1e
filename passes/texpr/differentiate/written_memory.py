"""Derivatives that memory would lose: it has none with respect to the values that it was set from, and a kept
value none with respect to memory that was written since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.errors import OcannlError, at_line, location_text
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr import AssignOp, BackpropOp, ForwardOp, GradOp, ParamOp, ValueOp
from ocannl.dialects.texpr.derivatives import JvpOp, VjpOp
from ocannl.passes.analysis.values.derivative_paths import all_operands, dependencies, differentiable_operands
from ocannl.passes.analysis.values.slices import backward_slice

TWO_OPTIMIZERS = (
    "\n  hint: two optimizers of one loss update by the same gradients: train.grad_update(loss), and then "
    "update(loss, params=[...]) of each"
)


@dataclass(frozen=True)
class Write:
    """A statement that has set memory, and the values on which what it has set depends."""

    op: Operation
    sources: frozenset[SSAValue]


class WrittenMemory:
    """The memory that the statements of a block have set so far, in their order."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.ops = operations_of(block)
        self.values = {op.source: op.result for op in self.ops if isinstance(op, ValueOp)}
        self.writes: dict[SSAValue, Write] = {}
        self.kept: dict[SSAValue, Operation | None] = {}
        """The values that hold for the rest, each with the first write since to memory that it reads."""

    def check(self) -> None:
        """Raises `OcannlError` where a derivative goes to memory that was set, before it in the same code,
        from what the derivative is asked for.
        """
        statements = [op for op in self.ops if isinstance(op, AssignOp | ForwardOp | BackpropOp)]
        last = max((at for at, op in enumerate(statements) if self.derivatives(op)), default=-1)
        for op in statements[: last + 1]:
            for derivative in self.derivatives(op) if self.writes else ():
                self.check_derivative(derivative)
                self.check_kept(derivative)
            if isinstance(op, ForwardOp) and op.keep is not None:
                self.kept.setdefault(op.tensor, None)
            if isinstance(op, AssignOp):
                self.write(op.target, op.value, op, is_set=op.accum is None or op.reset is not None)
            elif isinstance(op, ForwardOp) and op.tensor in self.values:
                self.write(self.values[op.tensor], op.tensor, op, is_set=True)

    def derivatives(self, statement: Operation) -> list[BackpropOp | VjpOp | JvpOp]:
        """The derivatives that a statement asks for, those in the expressions that it computes too, but for
        expressions that were kept: these were differentiated there.
        """
        found = [
            op
            for op in backward_slice(self.not_kept(statement.operands), self.operands)
            if isinstance(op, VjpOp | JvpOp)
        ]
        return [statement, *found] if isinstance(statement, BackpropOp) else [*found]

    def not_kept(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        return [value for value in values if value not in self.kept]

    def operands(self, op: Operation) -> list[SSAValue]:
        return self.not_kept(all_operands(op))

    def sources(self, value: SSAValue) -> set[SSAValue]:
        """The values on which one depends where it has derivatives, also through memory that was set."""
        path = dependencies(self.block, [value])
        found = {value, *(operand for op in path for operand in differentiable_operands(op))}
        written = [self.writes[each].sources for each in found if each in self.writes]
        return found.union(*written)

    def write(self, memory: SSAValue, value: SSAValue, op: Operation, is_set: bool) -> None:
        for kept in [kept for kept, since in self.kept.items() if since is None]:
            if memory.owner in backward_slice([kept], all_operands):
                self.kept[kept] = op
        before = self.writes.pop(memory, None)
        sources = self.sources(value) - {memory}
        if before is not None and not is_set:
            sources |= before.sources
        self.writes[memory] = Write(op, frozenset(sources))

    def check_derivative(self, op: BackpropOp | VjpOp | JvpOp) -> None:
        targets = self.targets(op)
        for memory in self.read(op) - targets:
            # A parameter is where derivatives begin anew, whatever has updated it.
            write = None if isinstance(memory.owner, ParamOp) else self.writes.get(memory)
            lost = () if write is None else sorted(map(name_of, write.sources & targets))
            if write is not None and lost:
                raise OcannlError(lost_gradient(op, memory, write, lost))

    def check_kept(self, op: BackpropOp | VjpOp | JvpOp) -> None:
        """Raises `OcannlError` for a derivative through a kept value: what it was computed from is gone."""
        targets, read = self.targets(op), self.read(op)
        for kept, since in self.kept.items():
            if since is not None and kept in read and not targets.isdisjoint(self.sources(kept)):
                raise OcannlError(stale_derivative(op, kept, since))

    def read(self, op: BackpropOp | VjpOp | JvpOp) -> set[SSAValue]:
        """The differentiated values, and those on the way to them."""
        path = dependencies(self.block, [op.tensor])
        return {op.tensor, *(operand for inner in path for operand in differentiable_operands(inner))}

    def targets(self, op: BackpropOp | VjpOp | JvpOp) -> set[SSAValue]:
        """The values by which it differentiates: for backprop all parameters, and what has a gradient."""
        if isinstance(op, BackpropOp):
            params = {each.result for each in self.ops if isinstance(each, ParamOp)}
            return params | {each.source for each in self.ops if isinstance(each, GradOp)}
        return {op.wrt} if isinstance(op, VjpOp) else {*op.wrt}


def name_of(value: SSAValue) -> str:
    """The name of a value; of one that is only numbered, where it was made."""
    if value.name_hint and re.fullmatch(r"n\d+", value.name_hint) is None:
        return f"`{value.name_hint}`"
    where = location_text(value.owner) if isinstance(value.owner, Operation) else None
    return "an expression" if where is None else f"the expression made at {where}"


def stale_derivative(op: Operation, kept: SSAValue, since: Operation) -> str:
    where = location_text(since)
    place = "" if where is None else f" at {where}"
    hint = TWO_OPTIMIZERS if isinstance(op, BackpropOp) else ""
    return at_line(
        op,
        f"{name_of(kept)} was computed before memory that it reads was written{place}, so that it has no "
        f"derivative here: differentiate it before that, or make it again afterwards{hint}",
    )


def lost_gradient(op: Operation, memory: SSAValue, write: Write, lost: Iterable[str]) -> str:
    where = location_text(write.op)
    place = "" if where is None else f" at {where}"
    name = name_of(memory)
    return at_line(
        op,
        f"the derivative with respect to {', '.join(lost)} would be lost in {name}, which is memory that "
        f"this code has set{place}: differentiate the expression that it was set to, or say "
        f"`oc.stop_gradient({name.strip('`')})` if it is constant here",
    )
