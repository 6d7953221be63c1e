"""The broadcasting order between row or dimension variables whose values are not known yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ocannl.dialects.records import dataclass
from ocannl.passes.texpr.infer_shapes.store import Store
from ocannl.passes.texpr.infer_shapes.terms import DimPair, DimVar, Row, RowVar

Pairs: TypeAlias = list[tuple[Row, Row]]
"""The two sides of rules over rows."""


@dataclass(slots=True)
class BroadcastOrder:
    """The broadcasting order between open variables, by number: dimensions, or row variables by their ranks.

    A result stands below its operands. `operands` are the variables directly above a variable; `results`
    those directly below it, with the most by which its rank may exceed theirs. `has_known` are the variables
    with a known operand, `has_unit` those with a known operand that broadcasts to anything (no axes, or size
    1), and `bounds` the greatest ranks that known results allow.
    """

    operands: dict[int, set[int]] = field(default_factory=lambda: defaultdict[int, set[int]](set))
    results: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict[int, dict[int, int]](dict))
    has_known: set[int] = field(default_factory=set[int])
    has_unit: set[int] = field(default_factory=set[int])
    bounds: dict[int, int] = field(default_factory=dict[int, int])

    def relate(self, result: int, operand: int, slack: int) -> None:
        """Records that the operand's rank exceeds the result's by `slack` at most."""
        if result != operand:
            self.operands[result].add(operand)
            results = self.results[operand]
            if slack < results.get(result, slack + 1):
                results[result] = slack

    def bound(self, operand: int, limit: int) -> None:
        """Records that the operand's rank is `limit` at most."""
        self.bounds[operand] = min(limit, self.bounds.get(operand, limit))

    def settled(self, open_vars: set[int], owned: Container[int], patient: Container[int]) -> set[int]:
        """The variables with a known operand, directly or through others, except `patient` ones.

        A variable of no leaf that has no operands is settled too: nothing can ever demand more of it. Nor of
        one whose operands are all such variables.
        """
        return self._topmost(open_vars, owned) | self._below(self.has_known & open_vars, patient)

    def settled_at_last(self, open_vars: set[int]) -> set[int]:
        """The variables with any known operand, when no leaf waits for its uses any more."""
        return self._below((self.has_known | self.has_unit) & open_vars, ())

    def _topmost(self, open_vars: set[int], owned: Container[int]) -> set[int]:
        topmost = {var for var in open_vars if var not in owned and var not in self.operands}
        waiting = list(topmost)
        while waiting:
            for result in self.results.get(waiting.pop(), ()):
                if result not in topmost and result not in owned and self.operands[result] <= topmost:
                    topmost.add(result)
                    waiting.append(result)
        return topmost

    def _below(self, known: set[int], patient: Container[int]) -> set[int]:
        settled = {var for var in known if var not in patient}
        waiting = list(settled)
        while waiting:
            for result in self.results.get(waiting.pop(), ()):
                if result not in settled and result not in patient:
                    settled.add(result)
                    waiting.append(result)
        return settled

    def used(self, variables: Iterable[int]) -> set[int]:
        """The variables that some result refines."""
        return {var for var in variables if self.results.get(var)}

    def limits(self) -> dict[int, int]:
        """The greatest ranks that known results allow, directly or through others, of the variables that they
        limit.
        """
        limits = dict(self.bounds)
        operands: dict[int, list[int]] = {var: list(above) for var, above in self.operands.items()}
        waiting = list(limits)
        while waiting:
            result = waiting.pop()
            for operand in operands.get(result, ()):
                limit = limits[result] + self.results[operand][result]
                if limit < limits.get(operand, limit + 1):
                    limits[operand] = limit
                    waiting.append(operand)
        return limits

    def sources(self, variables: Iterable[int]) -> set[int]:
        """The variables without operands among the given ones; all of them, if each has some."""
        given = set(variables)
        return {var for var in given if var not in self.operands} or given


class EqualRanks:
    """Open row variables of equal rank, which equations relate: a union-find structure.

    Once the representative has a rank, the equations give the others theirs.
    """

    def __init__(self, equations: Pairs) -> None:
        self._same: dict[int, int] = {}
        for left, right in equations:
            if left.var is not None and right.var is not None:
                one, other = self.of(left.var), self.of(right.var)
                if one != other:
                    self._same[one] = other

    def of(self, var: RowVar) -> int:
        """The number of the representative of `var`."""
        number = var.id
        while number in self._same:
            number = self._same[number]
        return number


def known_pairs(store: Store, pairs: Iterable[tuple[Row, Row]]) -> Pairs:
    """Rows as known now, without the pairs that say nothing more of ranks: both closed,
    or of one variable.
    """
    known: Pairs = []
    for left, right in pairs:
        if left.var is not None and left.var.id in store.rows:
            left = store.row(left)
        if right.var is not None and right.var.id in store.rows:
            right = store.row(right)
        if left.var != right.var:
            known.append((left, right))
    return known


def row_order(orders: Pairs, ranks: EqualRanks) -> BroadcastOrder:
    """The order between open row variables, by rank."""
    order = BroadcastOrder()
    for res, opnd in orders:
        if res.var is not None and opnd.var is not None:
            order.relate(ranks.of(res.var), ranks.of(opnd.var), res.known - opnd.known)
        elif res.var is not None:
            (order.has_known if opnd.known else order.has_unit).add(ranks.of(res.var))
        elif opnd.var is not None:
            order.bound(ranks.of(opnd.var), res.known - opnd.known)
    return order


def known_dim_pairs(store: Store, pairs: Iterable[DimPair]) -> list[DimPair]:
    """Dimensions as known now, without the pairs of which one is known, or that are equal."""
    known = [(store.dim(left), store.dim(right)) for left, right in pairs]
    return [
        (left, right)
        for left, right in known
        if isinstance(left, DimVar) and isinstance(right, DimVar) and left != right
    ]


def dim_order(store: Store, pairs: Iterable[DimPair], open_dims: Iterable[int]) -> BroadcastOrder:
    """The order between unknown dimensions."""
    order = BroadcastOrder()
    for res, opnd in pairs:
        order.relate(res.id, opnd.id, 0)
    order.has_unit.update(dim for dim in open_dims if dim in store.topped)
    return order


def row_cycles(orders: Pairs) -> list[list[RowVar]]:
    """Row variables that refine each other in a cycle, and so are equal.

    Memory that is updated from its own value has such rows.
    """
    above: dict[int, list[int]] = defaultdict(list[int])
    for res, opnd in orders:
        if res.var is not None and opnd.var is not None and not res.known and not opnd.known:
            above[res.var.id].append(opnd.var.id)
    return [
        [RowVar(var) for var in sorted(component)] for component in components(above) if len(component) > 1
    ]


def components(successors: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The strongly connected components of a graph (Tarjan, 1972), without recursion."""
    found: list[list[int]] = []
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    place: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()

    def enter(node: int) -> tuple[int, Iterator[int]]:
        number[node] = low[node] = len(number)
        place[node] = len(path)
        path.append(node)
        on_path.add(node)
        return node, iter(successors.get(node, ()))

    def leave(node: int) -> None:
        if low[node] == number[node]:
            start = place[node]
            found.append(path[start:])
            on_path.difference_update(path[start:])
            del path[start:]

    for root in sorted(successors):
        if root in number:
            continue
        work = [enter(root)]
        while work:
            node, following = work[-1]
            for other in following:
                if other not in number:
                    work.append(enter(other))
                    break
                if other in on_path:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                leave(node)
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return found
