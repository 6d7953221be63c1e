"""Inference rules for dimensions. Their broadcasting order is flat: size 1 without a basis stands above every
other size.
"""

from __future__ import annotations

from collections import deque

from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.infer_shapes.provenance import origins_of
from ocannl.passes.texpr.infer_shapes.rules import AxisRule, Rule
from ocannl.passes.texpr.infer_shapes.store import LowerBound, Minimum, Store
from ocannl.passes.texpr.infer_shapes.terms import ONE, Dim, DimAtLeast, DimProduct, DimSum, DimTerm, DimVar


class DimRules:
    """Propagates equations and the order between dimensions; rules to run again go to `queue`."""

    def __init__(self, store: Store, queue: deque[Rule]) -> None:
        self.store = store
        self.queue = queue

    def run(self, rule: AxisRule) -> None:
        """Makes the two sides of a rule agree as far as they are known. Raises `ShapeConflict`."""
        left, right = self.store.dim(rule.left), self.store.dim(rule.right)
        if left == right:
            return
        if rule.equal:
            self.equate(left, right, rule)
        elif isinstance(right, Dim):
            self._refine_known(left, right, rule)
        elif isinstance(left, Dim):
            self._bound_below(right, left, rule)
        elif self.store.minimum(right) > 1:
            self.equate(left, right, rule)
        else:
            self._relate(left, right, rule)

    def run_at_least(self, rule: DimAtLeast) -> None:
        """Raises `ShapeConflict`."""
        dim = self.store.dim(rule.dim)
        if isinstance(dim, DimVar):
            self.raise_minimum(dim, rule.minimum, rule)
        elif dim.size < rule.minimum:
            raise self._conflict(rule, too_small(rule.minimum, rule, dim))

    def equate(self, left: DimTerm, right: DimTerm, rule: Rule) -> None:
        """Makes two resolved dimensions one. Raises `ShapeConflict`."""
        if left == right:
            return
        if isinstance(left, Dim):
            left, right = right, left
        if isinstance(left, Dim):
            raise self._conflict(rule, f"sizes {right} and {left} differ")
        if isinstance(right, Dim):
            self.assign(left, right, rule)
        else:
            self._unite(left, right, rule)

    def assign(self, var: DimVar, value: Dim, rule: Rule) -> None:
        """Gives an unknown dimension a known size. Raises `ShapeConflict`."""
        lower = self.store.lower.get(var.id)
        if lower is not None and not value.broadcasts and value != lower.size:
            raise self._conflict(rule, f"sizes {value} and {lower.size} differ", var)
        minimum = self.store.at_least.get(var.id)
        if minimum is not None and value.size < minimum.minimum:
            raise self._conflict(rule, too_small(minimum.minimum, minimum.rule, value), var)
        self.store.bind_dim(var, value, rule)
        self.queue.extend(self.store.dim_rules(var))

    def raise_minimum(self, var: DimVar, minimum: int, rule: Rule) -> None:
        """Demands that an unknown dimension has a size of `minimum` or more. Raises `ShapeConflict`."""
        store = self.store
        if minimum <= store.minimum(var):
            return
        store.step += 1
        store.put(store.at_least, var.id, Minimum(minimum, store.step, rule))
        lower = store.lower.get(var.id)
        if lower is not None and minimum > 1:
            self.assign(var, lower.size, rule)
        else:
            self.queue.extend(store.dim_rules(var))

    def _refine_known(self, left: DimTerm, right: Dim, rule: AxisRule) -> None:
        if not right.broadcasts:
            self.equate(left, right, rule)
        elif isinstance(left, DimVar):
            self.store.put(self.store.topped, left.id, True)

    def _bound_below(self, var: DimVar, size: Dim, rule: Rule) -> None:
        """Records that `var` stands above `size`: it is that size, or 1."""
        store = self.store
        lower = store.lower.get(var.id)
        if size.broadcasts or (lower is not None and lower.size != size):
            self.assign(var, ONE, rule)
        elif store.minimum(var) > 1:
            self.assign(var, size, rule)
        elif lower is None:
            store.step += 1
            store.put(store.lower, var.id, LowerBound(size, store.step, rule))
            self.queue.extend(store.dim_rules(var))

    def _relate(self, left: DimVar, right: DimVar, rule: AxisRule) -> None:
        store = self.store
        lower = store.lower.get(left.id)
        if lower is not None:
            self._bound_below(right, lower.size, rule)
        if store.pair(left, right):
            store.watch_dim(left, rule)
            store.watch_dim(right, rule)

    def _unite(self, left: DimVar, right: DimVar, rule: Rule) -> None:
        store = self.store
        kept, dropped = left, right
        if _waiting(store, left) < _waiting(store, right):
            kept, dropped = right, left
        store.bind_dim(dropped, kept, rule)
        self.queue.extend(store.dim_rules(dropped))
        if dropped.id in store.topped:
            store.put(store.topped, kept.id, True)
        lower, minimum = store.lower.get(dropped.id), store.at_least.get(dropped.id)
        if lower is not None:
            self._bound_below(kept, lower.size, rule)
        if minimum is not None:
            self.queue.append(minimum.rule)

    def _conflict(self, rule: Rule, reason: str, var: DimVar | None = None) -> ShapeConflict:
        return dim_conflict(self.store, rule, reason, var)


def dim_conflict(store: Store, rule: Rule, reason: str, var: DimVar | None = None) -> ShapeConflict:
    """The error for `rule`, with its sides as known now; for a rule without two sides, `var` is shown."""
    if not isinstance(rule, AxisRule):
        dim = rule.dim if isinstance(rule, DimAtLeast) else var
        assert dim is not None
        because = origins_of(store, (dim,), rule.origin)
        return ShapeConflict(reason, origin=rule.origin, left=store.dim(dim), left_because=because)
    rows = rule.rows
    if rows is None:
        return ShapeConflict(
            reason,
            origin=rule.origin,
            left=store.dim(rule.left),
            right=store.dim(rule.right),
            left_because=origins_of(store, (rule.left,), rule.origin),
            right_because=origins_of(store, (rule.right,), rule.origin),
        )
    left, right = store.full_row(rows.left), store.full_row(rows.right)
    return ShapeConflict(
        reason,
        origin=rule.origin,
        left=left,
        right=right,
        left_axis=rule.place if rule.place >= 0 else left.known + rule.place,
        right_axis=rule.place if rule.place >= 0 else right.known + rule.place,
        left_because=origins_of(store, (rule.left, rows.left), rule.origin),
        right_because=origins_of(store, (rule.right, rows.right), rule.origin),
    )


def too_small(least: int, rule: Rule, size: Dim) -> str:
    """The reason why a size is wrong that is less than a rule demands."""
    if isinstance(rule, DimSum) and rule.window:
        return f"a window of size {least} does not fit in an axis of size {size}: `{rule.axis}`"
    if isinstance(rule, DimSum | DimProduct):
        return f"`{rule.axis}` takes {least} positions or more, the axis has size {size}"
    return f"position {least - 1} is used of an axis of size {size}"


def _waiting(store: Store, var: DimVar) -> int:
    watchers = store.dim_watchers.get(var.id)
    return 0 if watchers is None else watchers.length
