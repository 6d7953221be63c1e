"""The constraint solver of shape inference: constraints in, shapes out. It is independent of programs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from math import inf

from ocannl.passes.texpr.infer_shapes.closing import Closing
from ocannl.passes.texpr.infer_shapes.propagation import Propagation
from ocannl.passes.texpr.infer_shapes.provenance import origins_of
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import Constraint, DimTerm, DimVar, Leaf, Row, RowVar, Shape


class Solver:
    """Holds all consequences of the constraints added so far.

    These are a function of the set of constraints, and so are the shapes that `close` chooses. Constraints
    should hold rows as they are written in the program, not as `row` returns them: its `leading` axes decide
    where a row broadcasts.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._use(store or Store())

    def _use(self, store: Store) -> None:
        self._store = store
        self._propagation = Propagation(store)
        self._attempts = 0

    def fresh_dim(self) -> DimVar:
        """A new dimension variable."""
        return self._store.fresh_dim()

    def fresh_row(self) -> RowVar:
        """A new row variable."""
        return self._store.fresh_row()

    def reserve(self, dims: Set[int], rows: Set[int]) -> None:
        """Makes the variables of these numbers exist; new ones get other numbers."""
        store = self._store
        store.made_dims |= dims
        store.made_rows |= rows
        store.next_dim = max(store.next_dim - 1, *dims, -1) + 1
        store.next_row = max(store.next_row - 1, *rows, -1) + 1

    def add(self, *constraints: Constraint) -> None:
        """Adds constraints with their consequences; none of them, if it raises.

        Raises `ShapeConflict` if they contradict each other or earlier ones, `RankCycle` if a row would have
        to contain itself with more axes.
        """
        if not constraints:
            return
        mark = self._begin()
        try:
            for constraint in constraints:
                self._propagation.add(constraint)
                self._propagation.run()
        except BaseException:
            self._undo_to(mark)
            raise
        finally:
            self._end()

    def add_together(self, constraints: Iterable[Constraint]) -> None:
        """`add`, for constraints that decide much: consequences are drawn when all of them are known, so that
        nothing is first known in part.
        """
        with self.attempt():
            for constraint in constraints:
                self._propagation.add(constraint)
            self._propagation.run()

    def close(self, leaves: Sequence[Leaf], is_enough: Callable[[], bool] = lambda: False) -> None:
        """Decides every row and dimension that is still open, or as many as are enough. Changes nothing, if
        it raises.

        `leaves` are the tensors that no operation computes. Raises `ShapeConflict`, or `MissingDimension` for
        a parameter that no constraint determines.
        """
        with self.attempt():
            Closing(self._propagation, leaves).run(is_enough)

    def row(self, row: Row) -> Row:
        """`row` as known now."""
        return self._store.full_row(row)

    def dim(self, dim: DimTerm) -> DimTerm:
        """`dim` as known now."""
        return self._store.dim(dim)

    def shape(self, shape: Shape) -> Shape:
        """`shape` as known now."""
        return Shape(self.row(shape.batch), self.row(shape.input), self.row(shape.output))

    def origins(self, shape: Shape) -> Iterator[object]:
        """The origins of constraints on the variables that a shape was written with, and on those that these
        turned out to be.
        """
        store = self._store
        for row in shape:
            while row.var is not None:
                yield from (rule.origin for rule in store.row_rules(row.var))
                bound = store.row_bindings.get(row.var.id)
                if bound is None:
                    break
                yield bound.rule.origin
                inner = bound.value
                row = Row((*row.leading, *inner.leading), inner.var, (*inner.trailing, *row.trailing))
            for axis in row.axes:
                if isinstance(axis, DimVar):
                    found = [table.get(axis.id) for table in (store.dim_bindings, store.lower)]
                    rules = [*store.dim_rules(axis), *(one.rule for one in found if one is not None)]
                    yield from (rule.origin for rule in rules)

    def causes(self, shape: Shape) -> tuple[object, ...]:
        """The origins of the constraints and choices that determined a shape, the nearest first."""
        known = tuple(self._store.row(row) for row in shape)
        terms = (*shape, *(axis for row in known for axis in row.axes))
        return origins_of(self._store, terms, None, inf)

    @contextmanager
    def attempt(self) -> Generator[None]:
        """A context that undoes everything that was added in it, if an exception leaves it."""
        mark = self._begin()
        try:
            yield
        except BaseException:
            self._undo_to(mark)
            raise
        finally:
            self._end()

    def _begin(self) -> int:
        self._attempts += 1
        return len(self._store.log)

    def _undo_to(self, mark: int) -> None:
        self._store.undo_to(mark)
        self._propagation.queue.clear()

    def _end(self) -> None:
        self._attempts -= 1
        if not self._attempts:
            self._store.log.clear()

    def copy(self) -> Solver:
        """An independent solver with the same knowledge."""
        other = Solver()
        other._use(self._store.copy())
        return other
