"""Value numbering: keys that are equal for operations of equal value (Cocke and Schwartz, 1970)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.op_helpers import operands_of, operations_of
from ocannl.dialects.loops import LoadOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Indexed, substituted

Key: TypeAlias = Hashable
COMMUTATIVE = (
    arith.AddfOp,
    arith.MulfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.AddiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
)


@dataclass(slots=True)
class ValueNumbering:
    """Gives operations of one nest keys that are equal if their values are.

    A reduction is one value: inside it, variables and results are identified by their places.
    """

    writes: dict[SSAValue, int]
    """How often the nest has stored to a node so far."""
    variables: dict[str, Linear] = field(default_factory=dict[str, Linear])
    positions: dict[SSAValue, Hashable] = field(default_factory=dict[SSAValue, Hashable])
    depth: int = 0

    def of(self, op: Operation) -> Key:
        if isinstance(op, ReduceOp):
            return self._of_reduce(op)
        operands = [self.positions.get(operand, operand) for operand in operands_of(op)]
        arguments: Key = frozenset(operands) if type(op) in COMMUTATIVE else tuple(operands)
        if isinstance(op, LoadOp):
            return LoadOp, arguments, self.writes.get(op.node, 0), substituted(op.indices, self.variables)
        properties = dict(op.properties)
        if isinstance(op, Indexed):
            properties["indices"] = substituted(op.indices, self.variables)
        return type(op), arguments, frozenset(properties.items()), tuple(op.result_types)

    def _of_reduce(self, op: ReduceOp) -> Key:
        inner = ValueNumbering(self.writes, dict(self.variables), dict(self.positions), self.depth + 1)
        for name, _ in op.space.data:
            inner.variables[name] = Linear.var(f"#{len(inner.variables)}")
        keys: list[Key] = []
        for member in operations_of(op.body.block):
            keys.append(inner.of(member))
            for result in member.results:
                inner.positions[result] = inner.depth, len(keys), result.index
        sizes = tuple(size for _, size in op.space.data)
        return ReduceOp, op.accum, sizes, op.result.type, tuple(keys)
