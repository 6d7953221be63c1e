"""Closing: decides on everything that the constraints leave open, ranks first and then sizes.

Every round decides all that may be decided at once, and propagates, so that nothing depends on the order of
constraints. In each round the first of these stages that applies:

0. rows that refine each other in a cycle are equal;
1. results with a known operand, and rows of no leaf that have no operand at all, take the least rank or size
   that they can; a leaf with uses waits, and so does a result of which all known operands broadcast to
   anything (no axes, size 1);
2. leaves without operands take the greatest that their uses allow, through results that are themselves open;
   numbers do so after 3, since they broadcast to anything and should demand nothing of others; then come
   dimensions in products, sums and strides that are still open, and droppable parts become 0;
3. a row that only a number of elements constrains gets one axis of the remaining size, and those that wait
   since 1 take the least;
4. a parameter that is still open is an error, and so are a name that only the result of a spec has, and
   several unknown factors of a known size;
5. the last part of a sum of known size gets the remainder;
6. everything else gets no more axes, or size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ocannl.passes.texpr.infer_shapes.broadcast_order import (
    BroadcastOrder,
    EqualRanks,
    Pairs,
    dim_order,
    known_dim_pairs,
    known_pairs,
    row_cycles,
    row_order,
)
from ocannl.passes.texpr.infer_shapes.errors import MissingDimension, ShapeConflict
from ocannl.passes.texpr.infer_shapes.propagation import Propagation
from ocannl.passes.texpr.infer_shapes.relations import OpenRelation, open_relations
from ocannl.passes.texpr.infer_shapes.rules import ClosingRule
from ocannl.passes.texpr.infer_shapes.terms import (
    EMPTY_ROW,
    ONE,
    Dim,
    DimProduct,
    DimVar,
    Leaf,
    LeafKind,
    Row,
    RowEq,
    RowKind,
    RowVar,
)
from ocannl.passes.texpr.infer_shapes.totals import open_totals

# A hidden dimension is most often forgotten in an output row.
_MISSING_ORDER: tuple[RowKind, ...] = ("output", "input", "batch")
# The leaves whose sizes have to be given if nothing determines them.
_GIVEN = (LeafKind.PARAM, LeafKind.RANGE, LeafKind.NAME)


class Closing:
    """One closing of everything that a store leaves open."""

    def __init__(self, propagation: Propagation, leaves: Sequence[Leaf]) -> None:
        self.propagation = propagation
        self.store = propagation.store
        self.leaves = leaves

    def run(self, is_enough: Callable[[], bool]) -> None:
        """Closes until all is closed, or until it is enough. Raises `ShapeConflict`, `MissingDimension`."""
        self._close_rows(is_enough)
        self._close_dims(is_enough)

    def _close_rows(self, is_enough: Callable[[], bool]) -> None:
        store, propagation = self.store, self.propagation
        orders = known_pairs(store, ((rule.left, rule.right) for rule in store.orders))
        for first, *others in row_cycles(orders):
            for other in others:
                propagation.add(RowEq(Row(var=first), Row(var=other)))
        propagation.run()
        equations: Pairs = [(rule.left, rule.right) for rule in store.equations]
        owned = [(row, leaf) for leaf in self.leaves for row in leaf.shape]
        while (open_rows := store.open_rows()) and not is_enough():
            # Closed rows stay closed: later rounds look at the others.
            equations, orders = known_pairs(store, equations), known_pairs(store, orders)
            owned = [(known, leaf) for row, leaf in owned if (known := store.row(row)).var is not None]
            ranks = EqualRanks(equations)
            owners = _owners((ranks.of(row.var), leaf) for row, leaf in owned if row.var is not None)
            open_vars = {ranks.of(RowVar(var)) for var in open_rows}
            chosen = self._choose_ranks(row_order(orders, ranks), open_vars, owners, ranks)
            for var, rank in next(filter(None, chosen)).items():
                axes = Row(trailing=tuple([store.fresh_dim() for _ in range(rank)])) if rank else EMPTY_ROW
                propagation.rows.bind(RowVar(var), axes, _reason(owners.get(var)))
            propagation.run()

    def _close_dims(self, is_enough: Callable[[], bool]) -> None:
        store = self.store
        owned = [
            (axis, leaf)
            for leaf in self.leaves
            for row in leaf.shape
            for axis in store.row(row).axes
            if isinstance(axis, DimVar)
        ]
        pairs = list(store.pairs)
        while (open_dims := store.open_dims()) and not is_enough():
            owned = [(known, leaf) for dim, leaf in owned if isinstance(known := store.dim(dim), DimVar)]
            owners = _owners((dim.id, leaf) for dim, leaf in owned)
            pairs = known_dim_pairs(store, pairs)
            chosen = self._choose_sizes(dim_order(store, pairs, open_dims), open_dims, owners)
            for var, size in next(filter(None, chosen)).items():
                self.propagation.dims.assign(DimVar(var), size, _reason(owners.get(var)))
            self.propagation.run()

    # Ranks.

    def _choose_ranks(
        self, order: BroadcastOrder, open_vars: set[int], owners: Mapping[int, Leaf], ranks: EqualRanks
    ) -> Iterator[dict[int, int]]:
        """The ranks that each stage would choose, in the order of the stages above."""
        yield dict.fromkeys(order.settled(open_vars, owners, patient=order.used(owners)), 0)
        limits, numbers = order.limits(), _constants(owners)
        limited = order.sources(var for var in owners if var in limits and var not in numbers)
        yield {var: limits[var] for var in limited}
        yield self._flat_rows(ranks)
        yield dict.fromkeys(order.settled_at_last(open_vars), 0)
        yield {var: order.bounds[var] for var in numbers if var in order.bounds}
        self._check_rows(order, ranks)
        yield dict.fromkeys(order.sources(open_vars), 0)

    def _flat_rows(self, equal: EqualRanks) -> dict[int, int]:
        """One more axis for data given flat of which nothing else is known or demanded: in the last row that
        may have any.
        """
        ranks: dict[int, int] = {}
        for rule, total in open_totals(self.store):
            demanded = [self.store.lower.get(dim.id) for dim in total.dims.elements()]
            sizes = [bound.size.size for bound in demanded if bound is not None]
            if total.rows and len(sizes) == len(demanded) and total.known * math.prod(sizes) != rule.total:
                ranks.setdefault(equal.of(total.rows[-1]), 1)
        return ranks

    def _check_rows(self, order: BroadcastOrder, ranks: EqualRanks) -> None:
        """Raises `MissingDimension` for a parameter that may still have any number of axes."""
        missing: list[tuple[int, Leaf, RowKind]] = [
            (ranks.of(var), leaf, kind)
            for leaf in self._given()
            for kind in _MISSING_ORDER
            if (var := self.store.row(leaf.shape.row(kind)).var) is not None
            # A parameter that is only used pointwise has no input or batch axes, unless it is given some.
            and (kind == "output" or ranks.of(var) in order.operands)
        ]
        sources = order.sources(var for var, _, _ in missing)
        for var, leaf, kind in missing:
            if var in sources:
                raise MissingDimension(leaf, kind)

    # Sizes.

    def _choose_sizes(
        self, order: BroadcastOrder, open_vars: set[int], owners: Mapping[int, Leaf]
    ) -> Iterator[dict[int, Dim]]:
        """The sizes that each stage would choose, in the order of the stages above."""
        lower, relations, numbers = self.store.lower, list(open_relations(self.store)), _constants(owners)
        tied = {dim.id for relation in relations for dim in relation.unknown}
        yield self._least(order.settled(open_vars - tied, owners, patient=order.used(owners) | tied))
        yield self._demanded(order.sources(var for var in owners if var in lower and var not in numbers))
        yield self._demanded(var for var in tied if var in lower)
        yield self._at_least({dim: 0 for relation in relations for dim in relation.droppable})
        yield self._flat_dims()
        yield self._least(order.settled_at_last(open_vars))
        yield self._demanded(order.sources(var for var in numbers if var in lower))
        self._check_dims(order)
        yield self._split(relations)
        wholes = {relation.whole.id for relation in relations if isinstance(relation.whole, DimVar)}
        yield self._least(order.sources((open_vars - wholes) or open_vars))

    def _demanded(self, dims: Iterable[int]) -> dict[int, Dim]:
        """For each dimension the greatest size that anything demands of it."""
        return {var: self.store.lower[var].size for var in dims}

    def _split(self, relations: Sequence[OpenRelation]) -> dict[int, Dim]:
        """Sizes for the unknown parts of a known size: the least for all but the last, which gets the
        remainder.

        Raises `ShapeConflict` where each is the last of another size, and for factors and windows.
        """
        known = [relation for relation in relations if isinstance(relation.whole, Dim) and relation.parts]
        last = {relation.parts[-1] for relation in known}
        others = {dim: relation.least for relation in known for dim in relation.parts[:-1]}
        least = {dim: size for dim, size in others.items() if dim not in last}
        alike = [
            relation
            for relation in known
            if (isinstance(relation.rule, DimProduct) or relation.rule.window) and relation.whole != ONE
        ]
        if alike or (others and not least):
            relation = min(alike or known, key=lambda relation: relation.axis)
            reason = f"nothing tells the sizes in `{relation.axis}` apart: fix one by its name"
            raise ShapeConflict(reason, origin=relation.rule.origin, left=relation.whole)
        return self._at_least(least)

    def _at_least(self, dims: Mapping[DimVar, int]) -> dict[int, Dim]:
        return {dim.id: Dim(max(least, self.store.minimum(dim))) for dim, least in dims.items()}

    def _least(self, dims: Iterable[int]) -> dict[int, Dim]:
        return {var: Dim(max(1, self.store.minimum(DimVar(var)))) for var in dims}

    def _flat_dims(self) -> dict[int, Dim]:
        """The least size for all but the innermost unknown axis of flat data, which gets the remainder."""
        return self._least(dim.id for _, total in open_totals(self.store) for dim in list(total.dims)[:-1])

    def _check_dims(self, order: BroadcastOrder) -> None:
        """Raises `MissingDimension` for a dimension of a parameter that may still have any size."""
        missing: list[tuple[int, Leaf, RowKind, int]] = [
            (dim.id, leaf, kind, axis)
            for leaf in self._given()
            for kind in _MISSING_ORDER
            for axis, dim in enumerate(self.store.full_row(leaf.shape.row(kind)).axes)
            if isinstance(dim, DimVar)
        ]
        sources = order.sources(var for var, _, _, _ in missing)
        for var, leaf, kind, axis in missing:
            if var in sources:
                raise MissingDimension(leaf, kind, axis)

    # Leaves.

    def _given(self) -> list[Leaf]:
        """The leaves whose sizes have to be given, parameters with an input row first: one that scales a
        product, or is added to it, takes its size from it.
        """
        found = [leaf for leaf in self.leaves if leaf.kind in _GIVEN]
        return sorted(found, key=lambda leaf: self.store.full_row(leaf.shape.input) == EMPTY_ROW)


def _constants(owners: Mapping[int, Leaf]) -> set[int]:
    """The variables of numbers, which broadcast to anything."""
    return {var for var, leaf in owners.items() if leaf.kind is LeafKind.CONSTANT}


def _owners(owned: Iterable[tuple[int, Leaf]]) -> dict[int, Leaf]:
    """The first leaf that has each variable."""
    owners: dict[int, Leaf] = {}
    for var, leaf in owned:
        owners.setdefault(var, leaf)
    return owners


def _reason(leaf: Leaf | None) -> ClosingRule:
    return ClosingRule(None if leaf is None else leaf.origin)
