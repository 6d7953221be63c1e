"""Inference rules for arithmetic between dimensions: products, concatenations and affine axes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.schedules.divisors import divisors_beside
from ocannl.passes.texpr.infer_shapes.dim_rules import DimRules, too_small
from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.infer_shapes.provenance import origins_of, sides_of
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import Dim, DimProduct, DimSum, DimTerm, DimVar, Relation, Row
from ocannl.passes.texpr.infer_shapes.totals import Total, exact_root


class RelationRules:
    """Solves each relation for its only unknown dimension."""

    def __init__(self, store: Store, dims: DimRules) -> None:
        self.store = store
        self.dims = dims

    def run_product(self, rule: DimProduct) -> None:
        """Raises `ShapeConflict`."""
        whole, total = self.store.dim(rule.whole), Total.of(self.store, rule.factors)
        waiting = [*total.dims, *([whole] if isinstance(whole, DimVar) else [])]
        self.store.wait(rule, total.rows, waiting)
        factors = [axis for row in rule.factors for axis in self.store.full_row(row).axes]
        basis = self._basis(rule, factors)
        if not total.rows and not total.dims:
            self._give(rule, whole, Dim(total.known, basis))
        elif isinstance(whole, DimVar) and not total.rows:
            least = total.known * math.prod(map(self.store.minimum, total.dims.elements()))
            self._bound_whole(rule, whole, least, total.dims)
        elif isinstance(whole, Dim):
            self._divide(rule, whole, total, basis)

    def _give(self, rule: DimProduct, whole: DimTerm, made: Dim) -> None:
        if isinstance(whole, DimVar):
            self.dims.assign(whole, made, rule)
        elif whole != made:
            raise self._conflict(rule, f"`{rule.axis}` makes {made}, the axis has size {whole}")

    def _divide(self, rule: DimProduct, whole: Dim, total: Total, basis: str | None) -> None:
        if total.known == 0:
            if whole.size:
                raise self._conflict(rule, f"`{rule.axis}` makes 0, the axis has size {whole}")
            return
        rest, indivisible = divmod(whole.size, total.known)
        if indivisible:
            below, above = divisors_beside(whole.size, total.known)
            near = f"{below} and {above} divide it" if above else f"{below} divides it"
            message = f"the size {whole} of `{rule.axis}` is not divisible by {total.known}; {near}"
            raise self._conflict(rule, message)
        if len(total.dims) == 1 and not total.rows:
            ((var, times),) = total.dims.items()
            size = exact_root(rest, times)
            if size is None:
                message = f"in `{rule.axis}` a size of {rest} does not make {times} equal factors"
                raise self._conflict(rule, message)
            self.dims.assign(var, Dim(size, self._rest_basis(rule, whole, basis, times)), rule)

    def _rest_basis(self, rule: DimProduct, whole: Dim, basis: str | None, times: int) -> str | None:
        """The basis of `times` unknown axes beside known ones with `basis`: only one axis has one."""
        if basis == whole.basis:
            return None
        if basis is None and times == 1:
            return whole.basis
        raise self._conflict(rule, f"in `{rule.axis}` no axis has the basis of {whole}")

    def run_sum(self, rule: DimSum) -> None:
        """Raises `ShapeConflict`."""
        unknown: dict[DimVar, int] = {}
        total = rule.constant
        for coefficient, term in (*rule.terms, (-1, rule.whole)):
            dim = self.store.dim(term)
            if isinstance(dim, Dim):
                total += coefficient * dim.size
            else:
                unknown[dim] = unknown.get(dim, 0) + coefficient
        unknown = {dim: coefficient for dim, coefficient in unknown.items() if coefficient}
        self.store.wait(rule, (), unknown)
        self._check_bases(rule, [self.store.dim(dim) for _, dim in (*rule.terms, (-1, rule.whole))])
        if not unknown:
            self._check_sum(rule, total)
        else:
            self._bound_sum(rule, unknown, total)
            if len(unknown) == 1:
                ((dim, coefficient),) = unknown.items()
                self._solve_sum(rule, dim, coefficient, -total)

    def _bound_sum(self, rule: DimSum, unknown: dict[DimVar, int], known: int) -> None:
        """Raises the least size of an axis to that of its parts.

        Raises `ShapeConflict` for an axis of known size that does not hold it.
        """
        parts = [dim for dim, coefficient in unknown.items() if coefficient > 0]
        least = known + sum(unknown[dim] * max(rule.least, self.store.minimum(dim)) for dim in parts)
        whole = self.store.dim(rule.whole)
        if isinstance(whole, DimVar):
            if unknown.get(whole) == -1:
                self._bound_whole(rule, whole, least, parts)
        elif least > 0:
            raise self._conflict(rule, too_small(whole.size + least, rule, whole))

    def _bound_whole(self, rule: Relation, whole: DimVar, least: int, parts: Collection[DimVar]) -> None:
        if least > self.store.minimum(whole) and not self._follows(parts, rule):
            self.dims.raise_minimum(whole, least, rule)

    def _follows(self, dims: Iterable[DimTerm], rule: Relation) -> bool:
        """Whether the least size of a dimension follows from a rule, which would raise it without an end."""
        waiting, seen = deque(dims), set[int]()
        while waiting:
            dim = self.store.dim(waiting.popleft())
            bound = None if isinstance(dim, Dim) or dim.id in seen else self.store.at_least.get(dim.id)
            if bound is None or isinstance(dim, Dim):
                continue
            if bound.rule is rule:
                return True
            seen.add(dim.id)
            for side in sides_of(bound.rule):
                waiting.extend(self.store.full_row(side).axes if isinstance(side, Row) else (side,))
        return False

    def _check_sum(self, rule: DimSum, excess: int) -> None:
        if not excess:
            return
        whole = self.store.dim(rule.whole)
        if not isinstance(whole, Dim):
            raise self._conflict(rule, f"`{rule.axis}` cannot be of the size of a part of it")
        made = whole.size + excess
        raise self._conflict(rule, f"`{rule.axis}` makes {made}, the axis has size {whole}")

    def _solve_sum(self, rule: DimSum, dim: DimVar, coefficient: int, total: int) -> None:
        size, rest = divmod(total, coefficient)
        if rest or size < 0:
            raise self._conflict(rule, self._unsolvable(rule, coefficient, total))
        self.dims.assign(dim, Dim(size), rule)

    def _unsolvable(self, rule: DimSum, coefficient: int, total: int) -> str:
        whole = self.store.dim(rule.whole)
        if coefficient < 0 or not isinstance(whole, Dim):
            return f"`{rule.axis}` has no size"
        what = "leaves" if rule.window else "has"
        rest = total - coefficient if rule.window else total
        return (
            f"`{rule.axis}` in an axis of size {whole} {what} {rest}, which does not divide by {coefficient}"
        )

    def _basis(self, rule: DimProduct, factors: Iterable[DimTerm]) -> str | None:
        """The basis of a row's number of elements: that of the only axis with one."""
        based = [axis for axis in factors if isinstance(axis, Dim) and axis.basis is not None]
        if len(rule.factors) > 1 or len(based) > 1:
            self._check_bases(rule, [self.store.dim(rule.whole), *based])
        return based[0].basis if based else None

    def _check_bases(self, rule: Relation, dims: Iterable[DimTerm]) -> None:
        """Raises `ShapeConflict` for a dimension with a basis: arithmetic is on plain sizes."""
        for dim in dims:
            if isinstance(dim, Dim) and dim.basis is not None:
                raise self._conflict(rule, f"`{rule.axis}` takes sizes without a basis, found {dim}")

    def _conflict(self, rule: Relation, reason: str) -> ShapeConflict:
        because = origins_of(self.store, sides_of(rule), rule.origin)
        whole = self.store.dim(rule.whole)
        return ShapeConflict(reason, origin=rule.origin, left=whole, left_because=because)


@dataclass(frozen=True, slots=True)
class OpenRelation:
    """A relation with unknown dimensions: `parts` are those besides the whole, in order; some of them
    droppable.
    """

    rule: Relation
    whole: DimTerm
    parts: tuple[DimVar, ...]
    droppable: tuple[DimVar, ...]
    least: int

    @property
    def axis(self) -> str:
        return self.rule.axis

    @property
    def unknown(self) -> tuple[DimVar, ...]:
        return (*self.parts, *((self.whole,) if isinstance(self.whole, DimVar) else ()))


def open_relations(store: Store) -> Iterator[OpenRelation]:
    """The relations that are not solved yet."""
    for rule in store.relations:
        if isinstance(rule, DimProduct):
            parts = tuple(Total.of(store, rule.factors).dims)
            relation = OpenRelation(rule, store.dim(rule.whole), parts, (), 1)
        else:
            parts = _unknown(store, tuple(dim for _, dim in rule.terms))
            droppable = _unknown(store, rule.droppable)
            relation = OpenRelation(rule, store.dim(rule.whole), parts, droppable, rule.least)
        if relation.unknown:
            yield relation


def _unknown(store: Store, dims: tuple[DimTerm, ...]) -> tuple[DimVar, ...]:
    return tuple(known for known in map(store.dim, dims) if isinstance(known, DimVar))
