"""`fold-layers`: of many equal layers a few stay, to be compiled for all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.assign import (
    AccumOp,
    AssignRoutineOp,
    CommentOp,
    NodeOp,
    RangeOp,
    UniformOp,
    memref_shape,
)
from ocannl.dialects.op_helpers import copied, operations_of
from ocannl.passes.layers import ATTRIBUTE, ENDS, FIRST, LAST, Layers
from ocannl.passes.nests import declaration, node_mode
from ocannl.passes.repeats import Repeats

# Fewer layers than this are compiled as they are.
LEAST_LAYERS = 2 * ENDS + 2
# How often nodes are numbered by those that they are used with.
ROUNDS = 6


class Levels:
    """The number of its layer for each node that has one: parameters tell, and what most is used with."""

    def __init__(self, repeats: Repeats) -> None:
        self.chains = repeats.chains()
        ((self.layers, _),) = Counter(map(len, self.chains)).most_common(1) or ((0, 0),)
        self.of: dict[SSAValue, int] = {}
        if self.layers >= LEAST_LAYERS:
            for chain, first in zip(self.chains, self.firsts(repeats.typical()), strict=True):
                numbered = enumerate(chain, self.layers if first is None else first)
                self.of.update((node, level) for level, node in numbered if 0 <= level < self.layers)

    def firsts(self, statements: Sequence[Operation]) -> list[int | None]:
        """The number of the first node of each chain."""
        whole = [number for number, chain in enumerate(self.chains) if len(chain) == self.layers]
        parameters = [number for number in whole if node_mode(self.chains[number][0]) != "local"]
        fixed = set(parameters or whole[:1])
        firsts: list[int | None] = [0 if number in fixed else None for number in range(len(self.chains))]
        near = self.near(statements)
        for _ in range(ROUNDS):
            for number, others in enumerate(near):
                votes = Counter(
                    known + apart for other, apart in others if (known := firsts[other]) is not None
                )
                best, count = max(votes.items(), key=itemgetter(1), default=(None, 0))
                own = firsts[number]
                if number not in fixed and count > (0 if own is None else votes[own]):
                    firsts[number] = best
        return firsts

    def near(self, statements: Sequence[Operation]) -> list[list[tuple[int, int]]]:
        """For each chain those that it is used with, and how much further these are."""
        places = {
            node: (number, at) for number, chain in enumerate(self.chains) for at, node in enumerate(chain)
        }
        found: list[list[tuple[int, int]]] = [[] for _ in self.chains]
        for statement in statements:
            used = [place for node in statement.operands if (place := places.get(node)) is not None]
            for number, at in used:
                found[number] += [(other, further - at) for other, further in used if other != number]
        return found

    def span(self, statement: Operation) -> tuple[int, int] | None:
        """The first and the last layer that a statement touches; None if it touches none."""
        found = [level for node in statement.operands if (level := self.of.get(node)) is not None]
        return (min(found), max(found)) if found else None


@dataclass
class Folding:
    """The statements of a routine, and the places of those of each layer: the first one that they touch."""

    statements: Sequence[Operation]
    repeats: Repeats
    levels: Levels
    places: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    @staticmethod
    def of(routine: AssignRoutineOp) -> Folding:
        ops = operations_of(routine.body.block)
        statements = [op for op in ops if isinstance(op, AccumOp | RangeOp | UniformOp)]
        repeats = Repeats(statements)
        return Folding(statements, repeats, Levels(repeats))

    @property
    def first_after(self) -> int:
        """The first layer after those that are left out."""
        return self.levels.layers - ENDS

    def is_possible(self) -> bool:
        """All layers but the outer ones are equal, and touch the next one at most."""
        if self.levels.layers < LEAST_LAYERS:
            return False
        for place, statement in enumerate(self.statements):
            first, last = self.levels.span(statement) or (-1, -1)
            self.places.setdefault(first, []).append(place)
            if last - first > 1 and last > LAST and first < self.first_after:
                return False
        return all(self.is_next(level) for level in range(LAST, self.first_after)) and self.keeps_order()

    def is_next(self, level: int) -> bool:
        """The statements of the next layer are those of a layer but for its nodes, which alone they set."""
        own, following = self.places.get(level, []), self.places.get(level + 1, [])
        return len(own) == len(following) and all(map(self.follows, own, following))

    def follows(self, one: int, other: int) -> bool:
        after, operands = self.repeats.after, self.statements[one].operands
        is_equal = self.repeats.codes[one] == self.repeats.codes[other]
        # Scalars of all layers are merged in one nest: layers that have some differ from then on.
        is_own = operands[0] in self.levels.of and math.prod(memref_shape(operands[0])) != 1
        expected = [after.get(node, node) for node in operands]
        return is_equal and is_own and expected == list(self.statements[other].operands)

    def keeps_order(self) -> bool:
        """The first layer after those left out runs before and after what the second one left out does."""
        return self.order_with_last(FIRST) == self.order_with_last(self.first_after)

    def order_with_last(self, level: int) -> list[tuple[int, int]]:
        """How the statements of a layer mix with those of the last one before those left out."""
        both = [(place, 0, number) for number, place in enumerate(self.places[LAST])]
        both += [(place, 1, number) for number, place in enumerate(self.places[level])]
        return [(of, number) for _, of, number in sorted(both)]

    def folded(self, routine: AssignRoutineOp) -> AssignRoutineOp:
        """A copy without the layers inside; the first one after them stands for each next one."""
        inside = range(ENDS, self.first_after)
        left_out = {self.statements[place] for level in inside for place in self.places[level]}
        levels, values = self.levels.of, dict[SSAValue, SSAValue]()
        ops = operations_of(routine.body.block)
        kept: list[Operation] = [
            copied(op, values) for op in ops if isinstance(op, NodeOp) and levels.get(op.result) not in inside
        ]
        for chain in self.levels.chains:
            by_level = {levels[node]: node for node in chain if node in levels}
            if ENDS in by_level and self.first_after in by_level:
                values[by_level[ENDS]] = values[by_level[self.first_after]]
        for op in ops:
            if op in left_out and isinstance(kept[-1], CommentOp):
                kept.pop()
            elif op not in left_out and not isinstance(op, NodeOp):
                kept.append(copied(op, values))
        rows = Layers(tuple(map(self.row, self.levels.chains)))
        attributes = {**routine.attributes, ATTRIBUTE: rows.attribute()}
        body = Region(Block(kept))
        name, indices = routine.sym_name.data, routine.indices.data
        return AssignRoutineOp(name, indices, body, attributes, routine.location)

    def row(self, chain: Sequence[SSAValue]) -> tuple[str, ...]:
        levels = self.levels.of
        labels = {levels[node]: declaration(node).label.data for node in chain if node in levels}
        return tuple(labels.get(level, "") for level in range(self.levels.layers))


@dataclass(frozen=True)
class FoldLayersPass(ModulePass):
    """Leaves layers out that are equal, but for their nodes, to those before and after them.

    Two layers stay at each end. What is left out is noted at the routine, for `unfold-layers`. It applies to
    the only routine of a module, and to six layers or more, of which each sets its own nodes, no scalars,
    and touches those of the next one at most. The routine stays as it was, beside its copy without the
    layers.
    """

    name = "fold-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = operations_of(op.body.block)
        if len(ops) != 1 or not isinstance(ops[0], AssignRoutineOp):
            return
        folding = Folding.of(ops[0])
        if folding.is_possible():
            ops[0].detach()
            op.body.block.add_op(folding.folded(ops[0]))
