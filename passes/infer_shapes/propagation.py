"""Runs rules until nothing more follows."""

from __future__ import annotations

from collections import deque

from ocannl.passes.infer_shapes.dim_rules import DimRules
from ocannl.passes.infer_shapes.relations import RelationRules
from ocannl.passes.infer_shapes.row_rules import RowRules
from ocannl.passes.infer_shapes.rules import (
    AtLeastRule,
    AxisRule,
    EqRule,
    LeRule,
    ProductRule,
    Rule,
    SumRule,
    TotalRule,
)
from ocannl.passes.infer_shapes.store import Store
from ocannl.passes.infer_shapes.terms import (
    Constraint,
    DimAtLeast,
    DimEq,
    DimLe,
    DimProduct,
    DimSum,
    RowEq,
    RowLe,
    TotalElements,
)
from ocannl.passes.infer_shapes.totals import TotalRules


class Propagation:
    """The rules that wait to be run on one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.queue: deque[Rule] = deque()
        self.dims = DimRules(store, self.queue)
        self.rows = RowRules(store, self.queue, self.dims)
        self.totals = TotalRules(store, self.dims)
        self.relations = RelationRules(store, self.dims)

    def add(self, constraint: Constraint) -> None:
        """Puts a constraint among the rules, to be run."""
        store = self.store
        rule = _rule(constraint, len(store.rules))
        if isinstance(rule, (EqRule, LeRule, TotalRule, ProductRule, SumRule)):
            store.put(store.rules, len(store.rules), rule)
        self.queue.append(rule)

    def run(self) -> None:
        """Runs all waiting rules and those that they wake. Raises `ShapeConflict`, `RankCycle`."""
        queue = self.queue
        while queue:
            rule = queue.popleft()
            if isinstance(rule, AxisRule):
                self.dims.run(rule)
            elif isinstance(rule, LeRule):
                self.rows.run_le(rule)
            elif isinstance(rule, EqRule):
                self.rows.run_eq(rule)
            elif isinstance(rule, AtLeastRule):
                self.dims.run_at_least(rule)
            elif isinstance(rule, TotalRule):
                self.totals.run(rule)
            elif isinstance(rule, ProductRule):
                self.relations.run_product(rule)
            elif isinstance(rule, SumRule):
                self.relations.run_sum(rule)


def _rule(constraint: Constraint, number: int) -> Rule:
    match constraint:
        case RowLe(res, opnd, origin):
            return LeRule(res, opnd, origin, len(opnd.leading), number)
        case RowEq(a, b, origin):
            return EqRule(a, b, origin, number)
        case DimLe(res, opnd, origin):
            return AxisRule(False, res, opnd, origin)
        case DimEq(a, b, origin):
            return AxisRule(True, a, b, origin)
        case DimAtLeast(dim, minimum, origin):
            return AtLeastRule(dim, minimum, origin)
        case DimProduct():
            return ProductRule(constraint, number)
        case DimSum():
            return SumRule(constraint, number)
        case TotalElements(rows, total, origin):
            return TotalRule(rows, total, origin, number)
