"""`fold-layers`: of many equal layers a few stay, to be compiled for all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.op_helpers import copied, operations_of
from ocannl.dialects.tensor_type import shape_of
from ocannl.dialects.texpr import (
    CommentOp,
    ConstantOp,
    MemoryOp,
    OfOp,
    TensorOp,
    TexprRoutineOp,
)
from ocannl.passes.layering import Code, Layering
from ocannl.passes.layers import ATTRIBUTE, ENDS, LAST, Layers

# Fewer layers than this are compiled as they are.
LEAST_LAYERS = 2 * ENDS + 2


class Folding:
    """The layers inside of a routine, compared with each other."""

    def __init__(self, layering: Layering) -> None:
        self.layering = layering
        self.code = layering.code
        self.level = layering.level
        self.layers = layering.layers
        self.following: dict[SSAValue, SSAValue] = {}
        """The values of the next layer, by those of a layer in place of which they stand."""
        self.statements: list[list[Operation]] = [[] for _ in range(self.layers)]
        self.others: list[Operation] = []
        self.turn: dict[Operation, int] = {}
        """How many statements of no layer run before one of a layer."""
        self.names = names_of(self.code.statements)
        """Labels and names of values."""
        turn = 0
        for op in self.code.statements:
            level = layering.of(op)
            (self.others if level is None else self.statements[level]).append(op)
            if not isinstance(op, TensorOp):
                turn += level is None
                self.turn[op] = turn

    @property
    def first_after(self) -> int:
        """The first layer after those that are left out."""
        return self.layers - ENDS

    def is_possible(self) -> bool:
        """All layers but the outer ones are equal, use those before them at most, and are used alike."""
        return (
            self.layers >= LEAST_LAYERS
            and all(self.is_next(level) for level in range(LAST, self.first_after))
            and all(map(self.is_used_alike, (LAST, self.first_after - 1)))
            and not any(map(self.uses_left_out, [*self.others, *self.statements[0], *self.statements[-1]]))
            and self.run_one_by_one()
            and self.follow_on_last()
            and self.have_names()
        )

    def is_next(self, level: int) -> bool:
        """The statements of the next layer are those of a layer, with its values."""
        own, following = self.statements[level], self.statements[level + 1]
        return 0 < len(own) == len(following) and all(map(self.follows, own, following))

    def follows(self, one: Operation, other: Operation) -> bool:
        codes = self.code.code_of
        if codes[one] != codes[other] or self.turn.get(one) != self.turn.get(other) or is_number(one):
            return False
        self.following.update(zip(one.results, other.results, strict=True))
        level = self.layering.of(one)
        assert level is not None
        pairs = zip(self.code.values[one], self.code.values[other], strict=True)
        return all(self.stands_for(own, following, level) for own, following in pairs)

    def stands_for(self, one: SSAValue, other: SSAValue, level: int) -> bool:
        """Whether a statement of the next layer uses one value as that of a layer uses another one."""
        own = self.level.get(one)
        if own is None:
            # Derivatives of all layers are summed up for what they share.
            return one is other and one not in self.code.active
        is_near = level - 1 <= own <= level and self.level.get(other) == own + 1
        return is_near and self.following.setdefault(one, other) is other

    def is_used_alike(self, level: int) -> bool:
        """What uses a layer does what uses the next one."""
        return all(
            self.users(result) == self.users(self.following[result])
            for op in self.statements[level]
            for result in op.results
        )

    def users(self, value: SSAValue) -> Counter[int]:
        return Counter(self.code.code_of[use.operation] for use in value.uses)

    def uses_left_out(self, op: Operation) -> bool:
        return any(ENDS <= self.level.get(operand, 0) < self.first_after for operand in op.operands)

    def run_one_by_one(self) -> bool:
        """Statements of layers run in the order of layers, up or down: one layer after the other, or all that
        do the same.
        """
        inner = range(LAST, self.first_after + 1)
        number = {op: place for level in inner for place, op in enumerate(self.statements[level])}
        stretches: list[list[int]] = []
        waiting: dict[int, int] = {}
        for op in self.turn:
            level = self.layering.of(op)
            if level is None:
                continue
            if not waiting:
                stretches.append([])
            stretches[-1].append(level)
            if op in number:
                same = number[op]
                left = waiting.pop(same, len(inner)) - 1
                waiting |= {same: left} if left else {}
        return all(levels in (sorted(levels), sorted(levels, reverse=True)) for levels in stretches)

    def follow_on_last(self) -> bool:
        """What the first layer after those left out uses of them is computed before in the last one, too."""
        places = {op: place for place, op in enumerate(self.code.statements)}
        last = {
            self.after(result, self.first_after - 1): places[op]
            for op in self.statements[LAST]
            for result in op.results
        }
        following = self.statements[self.first_after]
        return all(last.get(operand, -1) < places[op] for op in following for operand in op.operands)

    def have_names(self) -> bool:
        """Memory of layers has labels of its own, and no other names begin like those of layers."""
        layers = Layers(self.rows)
        return bool(self.rows) and all(
            all(layers.level(name) is None for name in names)
            if value not in self.level
            else names[0] or not isinstance(value.owner, MemoryOp)
            for value, names in self.names.items()
        )

    def folded(self, routine: TexprRoutineOp) -> TexprRoutineOp:
        """A copy without the layers inside: what the first one after them uses is the last one before."""
        left_out = {op for level in range(ENDS, self.first_after) for op in self.statements[level]}
        kept: list[Operation] = []
        values: dict[SSAValue, SSAValue] = {}
        for op in operations_of(routine.body.block):
            if op in left_out:
                if kept and isinstance(kept[-1], CommentOp):
                    kept.pop()
                continue
            kept.append(copied(op, values))
            if not isinstance(op, CommentOp) and self.layering.of(op) == LAST:
                values |= {self.after(result, self.first_after - 1): values[result] for result in op.results}
        attributes = {**routine.attributes, ATTRIBUTE: Layers(self.rows).attribute()}
        body = Region(Block(kept))
        name, indices = routine.sym_name.data, routine.indices.data
        return TexprRoutineOp(name, indices, body, attributes, routine.location)

    def after(self, value: SSAValue, level: int) -> SSAValue:
        """The value of a later layer that stands for one of the last layer before those left out."""
        for _ in range(LAST, level):
            value = self.following[value]
        return value

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The names of values that stand for each other; of outer layers, also those that stand for none."""
        return tuple(row for values in self.chains() for row in self.names_in(values))

    def chains(self) -> Iterator[Sequence[SSAValue | None]]:
        """The values that have names, those that stand for each other layer by layer."""
        in_row: set[SSAValue] = set()
        for one, other in self.layering.pairs():
            self.following.setdefault(one, other)
        preceding = {other: one for one, other in self.following.items()}
        for op in self.statements[LAST]:
            for result in op.results:
                if is_named(op):
                    chain = [self.after(result, level) for level in range(LAST, self.first_after + 1)]
                    before, after = preceding.get(result), self.following.get(chain[-1])
                    in_row |= {value for value in (before, after) if value is not None}
                    yield [before, *chain, after]
        for level in (0, self.layers - 1):
            named = [result for op in self.statements[level] if is_named(op) for result in op.results]
            for value in named:
                if value not in in_row:
                    yield [value if at == level else None for at in range(self.layers)]

    def names_in(self, values: Sequence[SSAValue | None]) -> Iterator[tuple[str, ...]]:
        names = [("", "") if value is None else self.names[value] for value in values]
        yield from dict.fromkeys(row for row in zip(*names, strict=True) if any(row))


def is_number(op: Operation) -> bool:
    """Numbers of all layers are merged in one nest, so that layers that have some differ from then on."""
    if isinstance(op, ConstantOp):
        return False
    return all(math.prod(shape_of(value).memory_sizes) == 1 for value in (*op.results, *op.operands[:1]))


def is_named(op: Operation) -> bool:
    """The names of other expressions are made from those that they belong to, or never seen."""
    return isinstance(op, TensorOp) and not isinstance(op, OfOp | ConstantOp)


def names_of(statements: Iterable[Operation]) -> dict[SSAValue, tuple[str, str]]:
    """The label of each value that has memory, and its name, from which passes make new labels: empty where
    another value has it, too.
    """
    found: dict[SSAValue, tuple[str, str]] = {}
    for op in statements:
        if isinstance(op, TensorOp) and not isinstance(op, OfOp):
            name = op.result.name_hint or ""
            found[op.result] = (op.label.data if isinstance(op, MemoryOp) else name, name)
    often = Counter(name for both in found.values() for name in set(both))
    known = {name: name if count == 1 else "" for name, count in often.items()}
    return {value: (known[label], known[name]) for value, (label, name) in found.items()}


@dataclass(frozen=True)
class FoldLayersPass(ModulePass):
    """Leaves layers out that are equal, but for their values, to those before and after them.

    Two layers stay at each end. What is left out is noted at the routine, for `unfold-layers`. It applies to
    the only routine of a module, and to six layers or more, which have no numbers of their own, and use
    those before them at most. The routine stays as it was, beside its copy without the layers.
    """

    name = "fold-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = operations_of(op.body.block)
        if len(ops) != 1 or not isinstance(ops[0], TexprRoutineOp) or ATTRIBUTE in ops[0].attributes:
            return
        statements = [inner for inner in operations_of(ops[0].body.block) if not isinstance(inner, CommentOp)]
        code = Code(statements)
        for stretch in code.stretches:
            if stretch.stop - stretch.start < (LEAST_LAYERS - 1) * stretch.period:
                continue
            boundary = code.boundary(stretch)
            folding = None if boundary is None else Folding(Layering(code, stretch, boundary))
            if folding is not None and folding.is_possible():
                ops[0].detach()
                op.body.block.add_op(folding.folded(ops[0]))
                return
