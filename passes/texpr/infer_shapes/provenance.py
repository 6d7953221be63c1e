"""The constraints that forced the value of a term, for error messages and for proofs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ocannl.passes.texpr.infer_shapes.rules import AxisRule, ClosingRule, Rule
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import (
    DimAtLeast,
    DimProduct,
    DimSum,
    DimTerm,
    DimVar,
    Row,
    TotalElements,
)

MOST_ORIGINS = 8


def origins_of(
    store: Store, terms: tuple[Row | DimTerm, ...], besides: object, most: float = MOST_ORIGINS
) -> tuple[object, ...]:
    """The origins of at most so many constraints that determined `terms`, the nearest first, and without
    `besides`.
    """
    found: list[object] = []
    seen: set[int] = set()
    waiting = deque(cause for term in terms for cause in _causes(store, term, store.step + 1))
    while waiting and len(found) < most:
        step, rule = waiting.popleft()
        if step in seen:
            continue
        seen.add(step)
        if rule.origin is not None and not any(rule.origin is other for other in (besides, *found)):
            found.append(rule.origin)
        waiting.extend(cause for side in sides_of(rule) for cause in _causes(store, side, step))
    return tuple(found)


def _causes(store: Store, term: Row | DimTerm, before: int) -> Iterator[tuple[int, Rule]]:
    """The steps before `before` in which `term` got its value, and the rules that were run in them."""
    if isinstance(term, Row):
        yield from _row_causes(store, term, before)
    else:
        yield from _dim_causes(store, term, before)


def _row_causes(store: Store, row: Row, before: int) -> Iterator[tuple[int, Rule]]:
    while row.var is not None:
        binding = store.row_bindings.get(row.var.id)
        if binding is None:
            return
        if binding.step < before:
            yield binding.step, binding.rule
        row = binding.value


def _dim_causes(store: Store, term: DimTerm, before: int) -> Iterator[tuple[int, Rule]]:
    while isinstance(term, DimVar):
        for bound in (store.lower.get(term.id), store.at_least.get(term.id)):
            if bound is not None and bound.step < before:
                yield bound.step, bound.rule
        binding = store.dim_bindings.get(term.id)
        if binding is None:
            return
        if binding.step < before:
            yield binding.step, binding.rule
        term = binding.value


def sides_of(rule: Rule) -> tuple[Row | DimTerm, ...]:
    """The terms that a rule relates."""
    if isinstance(rule, ClosingRule):
        return ()
    if isinstance(rule, DimAtLeast):
        return (rule.dim,)
    if isinstance(rule, TotalElements):
        return rule.rows
    if isinstance(rule, DimProduct):
        return (rule.whole, *rule.factors)
    if isinstance(rule, DimSum):
        return (rule.whole, *(dim for _, dim in rule.terms))
    if isinstance(rule, AxisRule) and rule.rows is not None:
        return (rule.left, rule.right, rule.rows.left, rule.rows.right)
    return (rule.left, rule.right)
