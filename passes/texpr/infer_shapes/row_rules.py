"""Inference rules for rows: how many axes they must have, and which axes correspond."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from ocannl.passes.texpr.infer_shapes.dim_rules import DimRules
from ocannl.passes.texpr.infer_shapes.errors import MORE_AXES, OTHER_COUNTS, RankCycle, ShapeConflict
from ocannl.passes.texpr.infer_shapes.provenance import origins_of
from ocannl.passes.texpr.infer_shapes.rules import AxisRule, Rule
from ocannl.passes.texpr.infer_shapes.store import Progress, Store
from ocannl.passes.texpr.infer_shapes.terms import EMPTY_ROW, Dim, DimTerm, Row, RowEq, RowLe, RowVar

MOST_AXES = 64
_UNSEEN = Progress()
_DONE = Progress(done=True)
Conflict = TypeVar("Conflict", bound=ShapeConflict)


class RowRules:
    """Propagates equations and the broadcasting order between rows."""

    def __init__(self, store: Store, queue: deque[Rule], dims: DimRules) -> None:
        self.store = store
        self.queue = queue
        self.dims = dims

    # The order.

    def run_le(self, rule: RowLe) -> None:
        """Raises `ShapeConflict`, `RankCycle`."""
        store = self.store
        before = store.progress.get(rule) or _UNSEEN
        if before.done:
            return
        res, opnd = store.row(rule.left), store.row(rule.right)
        needed = opnd.known
        lacking = needed - res.known
        if lacking > 0 or (lacking == 0 and res.var is None and opnd.var is not None):
            self._fit(rule, res, opnd, lacking)
            res, opnd = store.row(rule.left), store.row(rule.right)
        left, right = _meeting(rule.split, res, opnd) if needed else (0, 0)
        done = opnd.var is None and (res.var is None or left + right == needed)
        # Recorded before pairing, which may run this rule's watchers.
        now = _DONE if done else Progress(left, right, res.var, opnd.var)
        store.put(store.progress, rule, now)
        if now.res_var is not None and now.res_var != before.res_var:
            store.watch_row(now.res_var, rule)
        if now.opnd_var is not None and now.opnd_var != before.opnd_var:
            store.watch_row(now.opnd_var, rule)
        if left > before.left:
            self._pair_le(rule, res.axes, opnd.axes, range(before.left, left))
        if right > before.right:
            self._pair_le(rule, res.axes, opnd.axes, range(-before.right - 1, -right - 1, -1))

    def _fit(self, rule: RowLe, res: Row, opnd: Row, lacking: int) -> None:
        """Gives the result at least as many axes as the operand has."""
        if res.var is not None:
            if res.var == opnd.var:
                raise self._cycle(rule)
            self._extend(res.var, res, opnd, rule)
        elif lacking > 0:
            raise self._conflict(rule, MORE_AXES)
        elif opnd.var is not None:
            self.bind(opnd.var, EMPTY_ROW, rule)

    def _pair_le(
        self, rule: RowLe, res: tuple[DimTerm, ...], opnd: tuple[DimTerm, ...], places: range
    ) -> None:
        dim = self.store.dim
        for place in places:
            left, right = res[place], opnd[place]
            if dim(left) != dim(right):
                self.dims.run(AxisRule(False, left, right, rule.origin, rule, place))

    # Equations.

    def run_eq(self, rule: RowEq) -> None:
        """Raises `ShapeConflict`, `RankCycle`."""
        left, right = self.store.row(rule.left), self.store.row(rule.right)
        if left.var is None and right.var is None and left.known != right.known:
            raise self._conflict(rule, OTHER_COUNTS)
        if max(left.known, right.known) > MOST_AXES:
            raise self._cycle(rule)
        if left.var is None and right.var is None:
            self._pair_eq(rule, left.axes, right.axes, range(left.known))
        elif left.var is None or right.var is None:
            self._equate_with_closed(rule, left, right)
        elif left.var == right.var:
            self._equate_with_itself(rule, left, right)
        else:
            self._equate_open(rule, left, right)

    def _equate_with_closed(self, rule: RowEq, left: Row, right: Row) -> None:
        closed, other = (left, right) if left.var is None else (right, left)
        assert other.var is not None
        if other.known > closed.known:
            raise self._conflict(rule, OTHER_COUNTS)
        first, last = len(other.leading), closed.known - len(other.trailing)
        self.bind(other.var, Row(trailing=closed.axes[first:last]), rule)
        self._pair_ends(rule, left.axes, right.axes, first, len(other.trailing))

    def _equate_with_itself(self, rule: RowEq, left: Row, right: Row) -> None:
        if left.known != right.known:
            raise self._cycle(rule)
        self._pair_shared_ends(rule, left, right)
        if len(left.leading) != len(right.leading) and left.var is not None:
            self.store.wait(rule, (left.var,))

    def _equate_open(self, rule: RowEq, left: Row, right: Row) -> None:
        """Equates two open rows: one variable contains the other if its own axes fit inside the other's at
        both ends.
        """
        assert left.var is not None
        assert right.var is not None
        more_leading = len(left.leading) - len(right.leading)
        more_trailing = len(left.trailing) - len(right.trailing)
        if more_leading >= 0 and more_trailing >= 0:
            self.bind(right.var, _inner(left, right), rule)
        elif more_leading <= 0 and more_trailing <= 0:
            self.bind(left.var, _inner(right, left), rule)
        elif more_leading > 0:
            self._overlap(rule, left, right)
        else:
            self._overlap(rule, right, left)
        self._pair_shared_ends(rule, left, right)

    def _overlap(self, rule: RowEq, before: Row, after: Row) -> None:
        """Equates rows of which `before` has more leading and `after` more trailing axes, once a rank is
        known.

        The variables get the axes first that they have in any case.
        """
        assert before.var is not None
        assert after.var is not None
        leading = before.leading[len(after.leading) :]
        trailing = after.trailing[: len(after.trailing) - len(before.trailing)]
        if len(leading) > len(trailing):
            inner = Row(leading[: len(leading) - len(trailing)], self.store.fresh_row())
            self.bind(after.var, inner, rule)
        elif len(trailing) > len(leading):
            inner = Row((), self.store.fresh_row(), trailing[len(leading) :])
            self.bind(before.var, inner, rule)
        rows = (self.store.row(before), self.store.row(after))
        self.store.wait(rule, (row.var for row in rows if row.var is not None))

    def _pair_shared_ends(self, rule: RowEq, left: Row, right: Row) -> None:
        leading = min(len(left.leading), len(right.leading))
        trailing = min(len(left.trailing), len(right.trailing))
        self._pair_ends(rule, left.axes, right.axes, leading, trailing)

    def _pair_ends(
        self, rule: RowEq, left: tuple[DimTerm, ...], right: tuple[DimTerm, ...], leading: int, trailing: int
    ) -> None:
        self._pair_eq(rule, left, right, range(leading))
        self._pair_eq(rule, left, right, range(-1, -trailing - 1, -1))

    def _pair_eq(
        self, rule: RowEq, left: tuple[DimTerm, ...], right: tuple[DimTerm, ...], places: range
    ) -> None:
        dim = self.store.dim
        for place in places:
            one, other = left[place], right[place]
            if dim(one) != dim(other):
                self.dims.run(AxisRule(True, one, other, rule.origin, rule, place))

    # Variables.

    def bind(self, var: RowVar, value: Row, rule: Rule) -> None:
        """Gives a row variable its axes."""
        self.store.bind_row(var, value, rule)
        self.queue.extend(self.store.row_rules(var))

    def _extend(self, var: RowVar, res: Row, opnd: Row, rule: RowLe) -> None:
        """Gives the variable of the result as many more axes as the operand has: the operand's own, where
        these have a size that nothing else refines.
        """
        if opnd.known > MOST_AXES:
            raise self._cycle(rule)
        leading, trailing = len(res.leading), opnd.known - len(res.trailing)
        split = min(trailing, max(leading, rule.split))
        if opnd.var is None:
            axes = [*map(self._refining, opnd.axes[leading:trailing])]
        else:
            axes = [self.store.fresh_dim() for _ in range(leading, trailing)]
        ahead = split - leading
        self.bind(var, Row(tuple(axes[:ahead]), self.store.fresh_row(), tuple(axes[ahead:])), rule)

    def _refining(self, axis: DimTerm) -> DimTerm:
        """The dimension of a result beside an axis of its operand."""
        known = self.store.dim(axis)
        return axis if isinstance(known, Dim) and not known.broadcasts else self.store.fresh_dim()

    # Errors.

    def _conflict(self, rule: RowEq | RowLe, reason: str) -> ShapeConflict:
        return row_error(ShapeConflict, self.store, rule, reason)

    def _cycle(self, rule: RowEq | RowLe) -> RankCycle:
        return row_error(
            RankCycle, self.store, rule, "a rank cycle: a row would have to contain itself with more axes"
        )


def _meeting(split: int, res: Row, opnd: Row) -> tuple[int, int]:
    """The numbers of axes of the operand, from the left and from the right, whose partners are known."""
    left, right = split, len(opnd.trailing)
    if opnd.var is None:
        right += len(opnd.leading) - split
    if res.var is None:
        return left, right
    return min(left, len(res.leading)), min(right, len(res.trailing))


def _inner(outer: Row, other: Row) -> Row:
    """The part of `outer` between the leading and the trailing axes of `other`."""
    trailing = outer.trailing[: len(outer.trailing) - len(other.trailing)]
    return Row(outer.leading[len(other.leading) :], outer.var, trailing)


def row_error(kind: type[Conflict], store: Store, rule: RowEq | RowLe, reason: str) -> Conflict:
    """The error for `rule`, with its sides as known now."""
    return kind(
        reason,
        origin=rule.origin,
        left=store.full_row(rule.left),
        right=store.full_row(rule.right),
        left_because=origins_of(store, (rule.left,), rule.origin),
        right_because=origins_of(store, (rule.right,), rule.origin),
    )
