"""`eliminate-common-subexpressions`: what a nest computes twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp, YieldOp
from ocannl.passes.analysis.nests import Indexed, functions, nests, substituted

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
class Keys:
    """Keys that are equal for operations of equal value.

    Inside a reduction, which is one value, variables and results are known by position.
    """

    writes: dict[SSAValue, int]
    """How often the nest has stored to a node so far."""
    variables: dict[str, Linear] = field(default_factory=dict[str, Linear])
    positions: dict[SSAValue, Hashable] = field(default_factory=dict[SSAValue, Hashable])
    depth: int = 0

    def of(self, op: Operation) -> Key:
        if isinstance(op, ReduceOp):
            return self._of_reduce(op)
        operands = [self.positions.get(operand, operand) for operand in op.operands]
        arguments: Key = frozenset(operands) if isinstance(op, COMMUTATIVE) else tuple(operands)
        if isinstance(op, LoadOp):
            return LoadOp, arguments, self.writes.get(op.node, 0), substituted(op.indices, self.variables)
        properties = dict(op.properties)
        if isinstance(op, Indexed):
            properties["indices"] = substituted(op.indices, self.variables)
        return type(op), arguments, frozenset(properties.items()), tuple(op.result_types)

    def _of_reduce(self, op: ReduceOp) -> Key:
        inner = Keys(self.writes, dict(self.variables), dict(self.positions), self.depth + 1)
        for name, _ in op.space.data:
            inner.variables[name] = Linear.var(f"#{len(inner.variables)}")
        keys: list[Key] = []
        for member in op.body.block.ops:
            keys.append(inner.of(member))
            for result in member.results:
                inner.positions[result] = inner.depth, len(keys), result.index
        sizes = tuple(size for _, size in op.space.data)
        return ReduceOp, op.accum, sizes, op.result.type, tuple(keys)


class Eliminator:
    """Goes through one nest in order; a reduction also knows the values from around it."""

    def __init__(self) -> None:
        self.keys = Keys({})
        self.scopes: list[dict[Key, Operation]] = []

    def run(self, block: Block) -> None:
        self.scopes.append({})
        for op in block.ops:
            if isinstance(op, StoreOp):
                self.keys.writes[op.node] = self.keys.writes.get(op.node, 0) + 1
            elif isinstance(op, ReduceOp):
                self.run(op.body.block)
                self._replace(op)
            elif isinstance(op, LoadOp) or (not isinstance(op, YieldOp) and op.has_trait(Pure)):
                self._replace(op)
        self.scopes.pop()

    def _replace(self, op: Operation) -> None:
        key = self.keys.of(op)
        for scope in self.scopes:
            known = scope.get(key)
            if known is not None:
                for old, new in zip(op.results, known.results, strict=True):
                    old.replace_all_uses_with(new)
                Rewriter.erase_op(op)
                return
        self.scopes[-1][key] = op


@dataclass(frozen=True)
class EliminateCommonSubexpressionsPass(ModulePass):
    """Computes equal values of a nest once: scalar operations, loads and whole reductions.

    Loads are equal if the nest stores nothing to their node in between. Reductions are equal if their bodies
    are, up to the names of variables; inside a reduction, values from around it are used again, but not the
    reverse.
    """

    name = "eliminate-common-subexpressions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in nests(func):
                Eliminator().run(nest.body.block)
