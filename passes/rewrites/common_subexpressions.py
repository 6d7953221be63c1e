"""Common-subexpression elimination in one nest."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from ocannl.dialects.ir.origins import merge
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp, YieldOp
from ocannl.passes.analysis.values.value_numbering import Key, ValueNumbering


class Eliminator:
    """Replaces operations by earlier ones of equal value; those in a reduction also by
    values from around it.
    """

    def __init__(self) -> None:
        self.keys = ValueNumbering({})
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
                for one, other in zip(known.walk(), op.walk(), strict=True):
                    merge(one, other)
                Rewriter.erase_op(op)
                return
        self.scopes[-1][key] = op
