"""The state of the solver: the value of each variable, its reason, and the rules that wait for it; with an
undo log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import field, fields
from typing import Any, NamedTuple, TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.passes.texpr.infer_shapes.rules import Rule
from ocannl.passes.texpr.infer_shapes.tables import OnKeys, Table, VarId
from ocannl.passes.texpr.infer_shapes.terms import (
    Dim,
    DimPair,
    DimTerm,
    DimVar,
    Relation,
    Row,
    RowEq,
    RowLe,
    RowVar,
    TotalElements,
)


class Watchers(NamedTuple):
    """A persistent list of waiting rules: appending shares the old list, so that undoing
    drops the new cell.
    """

    rule: Rule
    rest: Watchers | None
    length: int


class DimBinding(NamedTuple):
    """A dimension variable's value as first bound, by which rule, and when."""

    step: int
    rule: Rule
    value: DimTerm


class RowBinding(NamedTuple):
    """A row variable's value as first bound, by which rule, and when."""

    step: int
    rule: Rule
    value: Row


class LowerBound(NamedTuple):
    """A demand of a use: the variable is `size`, or 1."""

    size: Dim
    step: int
    rule: Rule


class Minimum(NamedTuple):
    """A demand of a fixed position, or of the parts of an axis: the size is `minimum` or more."""

    minimum: int
    step: int
    rule: Rule


class Progress(NamedTuple):
    """The progress of a broadcasting rule: the axes paired from each side, and the variables it waits for.

    It is done, and waits for nothing, when every axis that the operand can have is paired.
    """

    left: int = 0
    right: int = 0
    res_var: RowVar | None = None
    opnd_var: RowVar | None = None
    done: bool = False


Waiting: TypeAlias = RowEq | TotalElements | Relation
Awaited: TypeAlias = tuple[set[int], set[int]]
"""Row variables and dimension variables."""

_OF_VARIABLES = (
    "dims",
    "rows",
    "dim_bindings",
    "row_bindings",
    "lower",
    "at_least",
    "topped",
    "dim_watchers",
    "row_watchers",
    "paired",
)

_Undo: TypeAlias = tuple[Table[Any, Any], Any, Any]


@dataclass(slots=True)
class Store:
    """Bindings of variables. Looking a value up never changes them."""

    next_dim: int = 0
    next_row: int = 0
    made_dims: set[int] = field(default_factory=set[int])
    made_rows: set[int] = field(default_factory=set[int])
    step: int = 0
    dims: Table[int, DimTerm] = field(default_factory=dict[int, DimTerm])
    rows: Table[int, Row] = field(default_factory=dict[int, Row])
    dim_bindings: Table[int, DimBinding] = field(default_factory=dict[int, DimBinding])
    row_bindings: Table[int, RowBinding] = field(default_factory=dict[int, RowBinding])
    lower: Table[int, LowerBound] = field(default_factory=dict[int, LowerBound])
    at_least: Table[int, Minimum] = field(default_factory=dict[int, Minimum])
    topped: Table[int, bool] = field(default_factory=dict[int, bool])
    dim_watchers: Table[int, Watchers] = field(default_factory=dict[int, Watchers])
    row_watchers: Table[int, Watchers] = field(default_factory=dict[int, Watchers])
    paired: Table[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    pairs: dict[DimPair, bool] = field(default_factory=dict[DimPair, bool])
    progress: Table[RowLe, Progress] = field(default_factory=dict[RowLe, Progress])
    waiting: Table[Waiting, Awaited] = field(default_factory=dict[Waiting, Awaited])
    orders: dict[RowLe, bool] = field(default_factory=dict[RowLe, bool])
    equations: dict[RowEq, bool] = field(default_factory=dict[RowEq, bool])
    totals: dict[TotalElements, bool] = field(default_factory=dict[TotalElements, bool])
    relations: dict[Relation, bool] = field(default_factory=dict[Relation, bool])
    log: list[_Undo] = field(default_factory=list[_Undo])
    variable: Callable[[int], int] = int
    """Makes the numbers of new variables."""
    is_closed_later: bool = True
    """Whether constraints are kept for closing."""

    @classmethod
    def of_variables(cls) -> Store:
        """A store that keeps nothing itself, but on variables and constraints; it is not closed."""
        store = cls(
            progress=OnKeys[RowLe, Progress]("state"),
            waiting=OnKeys[Waiting, Awaited]("state"),
            variable=VarId,
            is_closed_later=False,
        )
        for name in _OF_VARIABLES:
            setattr(store, name, OnKeys[int, Any](name))
        return store

    def copy(self) -> Store:
        """An independent store with the same bindings and an empty undo log."""
        known: Iterator[Any] = (copy(getattr(self, entry.name)) for entry in fields(self))
        other = Store(*known)
        other.log.clear()
        return other

    # Writing, and taking back.

    def put(self, table: Table[Any, Any], key: Any, value: Any) -> None:
        """Sets an entry of one of this store's tables, and logs it for `undo_to`."""
        self.log.append((table, key, table.get(key)))
        table[key] = value

    def undo_to(self, mark: int) -> None:
        """Undoes every write since the log had `mark` entries."""
        log = self.log
        while len(log) > mark:
            table, key, old = log.pop()
            if old is None:
                del table[key]
            else:
                table[key] = old

    def fresh_dim(self) -> DimVar:
        number = self.next_dim
        self.next_dim += 1
        if self.is_closed_later:
            self.made_dims.add(number)
        return DimVar(self.variable(number))

    def fresh_row(self) -> RowVar:
        number = self.next_row
        self.next_row += 1
        if self.is_closed_later:
            self.made_rows.add(number)
        return RowVar(self.variable(number))

    def bind_dim(self, var: DimVar, value: DimTerm, rule: Rule) -> None:
        self.step += 1
        self.put(self.dim_bindings, var.id, DimBinding(self.step, rule, value))
        self.put(self.dims, var.id, value)

    def bind_row(self, var: RowVar, value: Row, rule: Rule) -> None:
        self.step += 1
        self.put(self.row_bindings, var.id, RowBinding(self.step, rule, value))
        self.put(self.rows, var.id, value)

    # Looking up.

    def dim(self, term: DimTerm) -> DimTerm:
        """`term` as known now."""
        if isinstance(term, Dim):
            return term
        dims = self.dims
        value = dims.get(term.id)
        if value is None:
            return term
        if isinstance(value, Dim):
            return value
        path = [term.id]
        while isinstance(value, DimVar):
            following = dims.get(value.id)
            if following is None:
                break
            path.append(value.id)
            value = following
        for passed in path[:-1]:
            self.put(dims, passed, value)
        return value

    def row(self, row: Row) -> Row:
        """`row` with its variable replaced by its value; its dimensions are left as they are."""
        var = row.var
        if var is None:
            return row
        value = self.rows.get(var.id)
        if value is None:
            return row
        if value.var is not None and value.var.id in self.rows:
            value = self._compressed(var, value)
        if not row.leading and not row.trailing and (value.var is not None or not value.leading):
            return value
        if value.var is None:
            return Row(row.leading, None, value.trailing + row.trailing)
        return Row(row.leading + value.leading, value.var, value.trailing + row.trailing)

    def full_row(self, row: Row) -> Row:
        """`row` as known now, its dimensions too."""
        leading, var, trailing = row = self.row(row)
        if DimVar not in map(type, leading) and DimVar not in map(type, trailing):
            return row
        return Row(tuple(map(self.dim, leading)), var, tuple(map(self.dim, trailing)))

    def minimum(self, var: DimVar) -> int:
        """The least size that the positions in use allow."""
        minimum = self.at_least.get(var.id)
        return 0 if minimum is None else minimum.minimum

    def _compressed(self, var: RowVar, value: Row) -> Row:
        """The value of a variable: `value` as it was bound, with its own variable replaced by its value."""
        rows = self.rows
        path = [var.id]
        while value.var is not None and value.var.id in rows:
            path.append(value.var.id)
            value = rows[value.var.id]
        for passed in reversed(path[:-1]):
            outer = rows[passed]
            if value.var is None:
                value = Row((), None, outer.leading + value.trailing + outer.trailing)
            else:
                value = Row(outer.leading + value.leading, value.var, value.trailing + outer.trailing)
            self.put(rows, passed, value)
        return value

    # Waiting.

    def watch_dim(self, var: DimVar, rule: Rule) -> None:
        rest = self.dim_watchers.get(var.id)
        self.put(self.dim_watchers, var.id, Watchers(rule, rest, 1 if rest is None else rest.length + 1))

    def watch_row(self, var: RowVar, rule: Rule) -> None:
        rest = self.row_watchers.get(var.id)
        self.put(self.row_watchers, var.id, Watchers(rule, rest, 1 if rest is None else rest.length + 1))

    def wait(self, rule: Waiting, rows: Iterable[RowVar], dims: Iterable[DimVar] = ()) -> None:
        """Makes `rule` wait for exactly these variables, and for each of them once."""
        before = self.waiting.get(rule) or (set[int](), set[int]())
        now = ({row.id for row in rows}, {dim.id for dim in dims})
        if now == before:
            return
        self.put(self.waiting, rule, now)
        for row in now[0] - before[0]:
            self.watch_row(RowVar(row), rule)
        for dim in now[1] - before[1]:
            self.watch_dim(DimVar(dim), rule)

    def pair(self, left: DimVar, right: DimVar) -> bool:
        """Notes that a dimension refines another one; whether that is new."""
        # By number, which keeps no knowledge of the other.
        known = self.paired.get(left.id) or frozenset[int]()
        if right.id in known:
            return False
        self.put(self.paired, left.id, known | {int(right.id)})
        if self.is_closed_later:
            self.put(self.pairs, (left, right), True)
        return True

    def dim_rules(self, var: DimVar) -> Iterator[Rule]:
        return _each(self.dim_watchers.get(var.id))

    def row_rules(self, var: RowVar) -> Iterator[Rule]:
        return _each(self.row_watchers.get(var.id))

    def open_dims(self) -> set[int]:
        """The variables of which no value is known, by number."""
        return {var for var in self.made_dims if var not in self.dims}

    def open_rows(self) -> set[int]:
        """The row variables of which no value is known, by number."""
        return {var for var in self.made_rows if var not in self.rows}


def _each(watchers: Watchers | None) -> Iterator[Rule]:
    while watchers is not None:
        yield watchers.rule
        watchers = watchers.rest
