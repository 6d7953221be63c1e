"""Runs inference rules to a fixpoint."""

from __future__ import annotations

from collections import deque

from ocannl.passes.texpr.infer_shapes.dim_rules import DimRules
from ocannl.passes.texpr.infer_shapes.relations import RelationRules
from ocannl.passes.texpr.infer_shapes.row_rules import RowRules
from ocannl.passes.texpr.infer_shapes.rules import AxisRule, Rule
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import (
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
from ocannl.passes.texpr.infer_shapes.totals import TotalRules


class Propagation:
    """A worklist of the rules to be run on one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.queue: deque[Rule] = deque()
        self.dims = DimRules(store, self.queue)
        self.rows = RowRules(store, self.queue, self.dims)
        self.totals = TotalRules(store, self.dims)
        self.relations = RelationRules(store, self.dims)

    def add(self, constraint: Constraint) -> None:
        """Adds a constraint to the worklist."""
        if self.store.is_closed_later:
            self._keep(constraint)
        if isinstance(constraint, (DimEq, DimLe)):
            equal = isinstance(constraint, DimEq)
            self.queue.append(AxisRule(equal, constraint.left, constraint.right, constraint.origin))
        else:
            self.queue.append(constraint)

    def _keep(self, constraint: Constraint) -> None:
        """Keeps a constraint for closing."""
        store = self.store
        if isinstance(constraint, RowLe):
            store.put(store.orders, constraint, True)
        elif isinstance(constraint, RowEq):
            store.put(store.equations, constraint, True)
        elif isinstance(constraint, (DimProduct, DimSum)):
            store.put(store.relations, constraint, True)
        elif isinstance(constraint, TotalElements):
            store.put(store.totals, constraint, True)

    def run(self) -> None:
        """Runs all rules in the worklist and those that they wake. Raises `ShapeConflict`, `RankCycle`."""
        queue = self.queue
        while queue:
            rule = queue.popleft()
            if isinstance(rule, RowLe):
                self.rows.run_le(rule)
            elif isinstance(rule, AxisRule):
                self.dims.run(rule)
            elif isinstance(rule, RowEq):
                self.rows.run_eq(rule)
            elif isinstance(rule, DimAtLeast):
                self.dims.run_at_least(rule)
            elif isinstance(rule, TotalElements):
                self.totals.run(rule)
            elif isinstance(rule, DimProduct):
                self.relations.run_product(rule)
            elif isinstance(rule, DimSum):
                self.relations.run_sum(rule)
