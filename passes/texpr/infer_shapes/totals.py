"""Inference rules for a known number of elements: the shape of data that was given flat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ocannl.dialects.records import dataclass
from ocannl.passes.texpr.infer_shapes.dim_rules import DimRules
from ocannl.passes.texpr.infer_shapes.errors import ShapeConflict
from ocannl.passes.texpr.infer_shapes.provenance import origins_of
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import ONE, Dim, DimVar, Row, RowVar, TotalElements


@dataclass(frozen=True, slots=True)
class Total:
    """The axes that together have a fixed number of elements, as far as they are known."""

    known: int
    dims: Counter[DimVar]
    rows: tuple[RowVar, ...]

    @classmethod
    def of(cls, store: Store, rows: Sequence[Row]) -> Total:
        known, dims, variables = 1, Counter[DimVar](), list[RowVar]()
        for row in map(store.full_row, rows):
            if row.var is not None:
                variables.append(row.var)
            for axis in row.axes:
                if isinstance(axis, Dim):
                    known *= axis.size
                else:
                    dims[axis] += 1
        return cls(known, dims, tuple(variables))


class TotalRules:
    """Propagates numbers of elements."""

    def __init__(self, store: Store, dims: DimRules) -> None:
        self.store = store
        self.dims = dims

    def run(self, rule: TotalElements) -> None:
        """Raises `ShapeConflict`."""
        total = Total.of(self.store, rule.rows)
        self.store.wait(rule, total.rows, total.dims)
        if not total.rows and not total.dims:
            if total.known != rule.total:
                raise self._conflict(rule, f"{rule.total} elements are given, the axes have {total.known}")
            return
        if total.known == 0:
            return
        rest, indivisible = divmod(rule.total, total.known)
        if indivisible:
            raise self._conflict(rule, f"{rule.total} elements do not divide by {total.known}")
        if len(total.dims) == 1 and not total.rows:
            self._solve(rule, *next(iter(total.dims.items())), rest)
        else:
            self._rule_out(rule, total.dims, rest)

    def _solve(self, rule: TotalElements, var: DimVar, times: int, rest: int) -> None:
        size = exact_root(rest, times)
        if size is None:
            raise self._conflict(rule, f"{rest} elements do not make {times} equal axes")
        self.dims.assign(var, Dim(size), rule)

    def _rule_out(self, rule: TotalElements, dims: Counter[DimVar], rest: int) -> None:
        """Makes an axis 1 whose demanded size does not divide the remaining number of elements."""
        for var in dims:
            lower = self.store.lower.get(var.id)
            if lower is not None and (lower.size.size == 0 or rest % lower.size.size):
                self.dims.assign(var, ONE, rule)
                return

    def _conflict(self, rule: TotalElements, reason: str) -> ShapeConflict:
        return ShapeConflict(
            reason,
            origin=rule.origin,
            left=self.store.full_row(rule.rows[0]),
            right=self.store.full_row(rule.rows[-1]),
            left_because=origins_of(self.store, rule.rows, rule.origin),
        )


def exact_root(number: int, degree: int) -> int | None:
    """The size whose power `degree` is `number`, if there is one."""
    size = round(number ** (1 / degree)) if degree > 1 else number
    return size if size**degree == number else None


def open_totals(store: Store) -> Iterator[tuple[TotalElements, Total]]:
    """The numbers of elements that are not met yet."""
    for rule in store.totals:
        total = Total.of(store, rule.rows)
        if total.rows or total.dims:
            yield rule, total
