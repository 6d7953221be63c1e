"""`fold-layers`: of many equal layers a few stay, to be compiled for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.ir.op_helpers import copied, operations_of
from ocannl.dialects.ir.origins import across_layers
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import MICROBATCH
from ocannl.dialects.texpr import CommentOp, ConstantOp, MemoryOp, OfOp, ScanOp, TensorOp, TexprRoutineOp
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.equality.layers import ALL_LAYERS, ATTRIBUTE, ENDS, LAST, Layers
from ocannl.passes.analysis.final_shapes import check_shapes
from ocannl.passes.texpr.fold_layers.layering import NO_LAYER, Layering, NumberedStatements

# Fewer layers than this are compiled as they are.
LEAST_LAYERS = 2 * ENDS + 2
# Stands for no value.
NONE = -1


class Folding:
    """A candidate folding: the layers inside of a routine, compared with each other."""

    def __init__(self, layering: Layering) -> None:
        self.layering = layering
        self.code = layering.code
        self.level = layering.level
        self.of = layering.of
        self.layers = layering.layers
        self.first_after = self.layers - ENDS
        """The first layer after those that are left out."""
        self.following = np.full(len(self.level), NONE)
        """The values of the next layer, by those of a layer in place of which they stand."""
        self.inner = [self.statements(level) for level in range(LAST, self.first_after + 1)]
        """The statements of each layer from the last one before those left out to the first one after: those
        that stand for each other are at the same place.
        """
        has_effect = ~self.code.has_results
        self.effects: list[int] = np.flatnonzero(has_effect).tolist()
        """The statements that compute no value."""
        self.turn = np.where(has_effect, np.cumsum(has_effect & (self.of == NO_LAYER)), 0)
        """How many of these, of no layer, run before one of a layer."""

    def is_possible(self, *, as_built: bool) -> bool:
        """Whether all inner layers are equal, depend only on themselves and the layer before, and are used
        alike; `as_built`, before they have types, where names do not matter.
        """
        if self.layers < LEAST_LAYERS or not self.inner[0] or len(set(map(len, self.inner))) > 1:
            return False
        rows = np.array(self.inner, np.int64)
        return (
            self.do_the_same(rows)
            and (as_built or self.compute_no_scalars())
            and self.use_alike(rows)
            and all(self.are_used_alike(*pair) for pair in (self.inner[:2], self.inner[-2:]))
            and not self.uses_left_out()
            and self.run_one_by_one()
            and self.follow_on_last()
            and (as_built or self.have_names())
        )

    def statements(self, level: int) -> list[int]:
        return np.flatnonzero(self.of == level).tolist()

    def do_the_same(self, rows: NDArray[np.int64]) -> bool:
        """Whether corresponding statements are equal, and run after the same statements of no layer."""
        return all((numbers[rows] == numbers[rows[0]]).all() for numbers in (self.code.codes, self.turn))

    def compute_no_scalars(self) -> bool:
        """Whether layers compute no scalars in code with derivatives."""
        inner = [self.code.statements[place] for place in self.inner[0]]
        for op in inner:
            check_shapes(op)
        return not (self.code.is_differentiated and any(map(is_number, inner)))

    def use_alike(self, rows: NDArray[np.int64]) -> bool:
        """Whether statements use values of their own and of the previous layer at corresponding places, or
        shared values that have no derivative: for shared ones, derivatives of all layers are summed.
        """
        values = self.code.values_at(rows)
        own, following = values[:-1], values[1:]
        at, level = np.arange(LAST, self.first_after)[:, None], self.level[own]
        is_near = (at - 1 <= level) & (level <= at) & (self.level[following] == level + 1)
        is_shared = (level == NO_LAYER) & (own == following) & ~np.array(self.code.is_active)[own]
        self.following[own[is_near]] = following[is_near]
        return bool((is_near & (self.following[own] == following) | is_shared).all())

    def are_used_alike(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether corresponding values of two layers have equal users."""
        return all(
            self.users(value) == self.users(following)
            for places in zip(one, other, strict=True)
            for value, following in zip(*map(self.code.computed, places), strict=True)
        )

    def users(self, value: int) -> list[int]:
        return sorted(self.code.codes[self.code.users[value]].tolist())

    def uses_left_out(self) -> bool:
        """Whether a statement outside of the layers uses a value of a layer left out."""
        is_outside = (self.of <= 0) | (self.of >= self.layers - 1)
        level = self.level[self.code.flat[np.repeat(is_outside, self.code.counts)]]
        return bool(((level >= ENDS) & (level < self.first_after)).any())

    def run_one_by_one(self) -> bool:
        """Whether statements with effects run in the order of layers, up or down: layer by layer, or
        statement by statement for all layers.
        """
        number = {place: at for places in self.inner for at, place in enumerate(places)}
        stretches: list[list[int]] = []
        waiting: dict[int, int] = {}
        for place in self.effects:
            level = int(self.of[place])
            if level == NO_LAYER:
                continue
            if not waiting:
                stretches.append([])
            stretches[-1].append(level)
            if place in number:
                same = number[place]
                left = waiting.pop(same, len(self.inner)) - 1
                waiting |= {same: left} if left else {}
        return all(levels in (sorted(levels), sorted(levels, reverse=True)) for levels in stretches)

    def follow_on_last(self) -> bool:
        """Whether the values of the previous layer that the first layer after those left out uses are defined
        early enough in the last layer before them, which then stands for it.
        """
        last = {
            value: place
            for place, later in zip(self.inner[0], self.inner[-2], strict=True)
            for value in self.code.computed(later)
        }
        return all(
            last.get(value, NONE) < place for place in self.inner[-1] for value in self.code.values[place]
        )

    def have_names(self) -> bool:
        """Whether memory in layers has labels of its own, and no other label could be taken for one of a
        layer.
        """
        layers = Layers(self.rows)

        def is_no_other(name: str) -> bool:
            """Whether a name begins as that of no layer, or of an outer one that corresponds to none: memory
            that is made for a parameter outside of the layers, as its moments.
            """
            row, _, _ = layers.origin(name)
            return sum(map(bool, row)) <= 1

        return bool(self.rows) and all(
            all(map(is_no_other, names))
            if self.level[value] == NO_LAYER
            else names[0] or not isinstance(self.code.results[value].owner, MemoryOp)
            for value, names in self.names.items()
        )

    def folded(self, routine: TexprRoutineOp) -> TexprRoutineOp:
        """A copy of the routine without the inner layers: uses of the last of them become uses of the last
        one before.
        """
        left_out = self.left_out
        alike: dict[int, tuple[int, ...]] = dict(
            zip(self.inner[0], zip(*self.inner[:-1], strict=True), strict=True)
        )
        kept: list[Operation] = []
        values: dict[SSAValue, SSAValue] = {}
        places = iter(range(len(self.code.statements)))
        for op in operations_of(routine.body.block):
            place = None if type(op) is CommentOp else next(places)
            if place in left_out:
                if kept and isinstance(kept[-1], CommentOp):
                    kept.pop()
                continue
            kept.append(copied(op, values))
            if place in alike:
                stand_for = [self.code.statements[other] for other in alike[place]]
                kept[-1].location = across_layers([other.location for other in stand_for])
                values |= zip(stand_for[-1].results, kept[-1].results, strict=True)
        body = Region(Block(kept))
        name, indices = routine.sym_name.data, routine.indices.data
        folded = TexprRoutineOp(name, indices, body, {**routine.attributes}, routine.location)
        if routine.mesh is not None:
            folded.properties["mesh"] = routine.mesh
        return folded

    @cached_property
    def left_out(self) -> set[int]:
        """The statements of the layers that are left out."""
        return set(chain.from_iterable(self.inner[1:-1]))

    def stand_ins(self) -> list[int]:
        """For each statement the place of the one that stands for it among those of the folded routine."""
        of = {place: alike[0] for alike in zip(*self.inner[:-1], strict=True) for place in alike}
        kept = [place for place in range(len(self.code.statements)) if place not in self.left_out]
        number = {place: at for at, place in enumerate(kept)}
        return [number[of.get(place, place)] for place in range(len(self.code.statements))]

    @cached_property
    def names(self) -> dict[int, tuple[str, str]]:
        """Labels and names of values."""
        return names_of(self.code.results)

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The labels of corresponding values, a row for each, also of those of outer layers that correspond
        to none.
        """
        return tuple(row for values in self.chains() for row in self.names_in(values))

    def chains(self) -> Iterator[Sequence[int]]:
        """Corresponding values that have names, layer by layer."""
        following, preceding = self.neighbours()
        in_row: set[int] = set()
        for inside in map(list[int], zip(*map(self.named, self.inner), strict=True)):
            row = [preceding[inside[0]], *inside, following[inside[-1]]]
            in_row |= {row[0], row[-1]}
            yield row
        for level in (0, self.layers - 1):
            for value in self.named(self.statements(level)):
                if value not in in_row:
                    yield [value if at == level else NONE for at in range(self.layers)]

    def names_in(self, values: Sequence[int]) -> Iterator[tuple[str, ...]]:
        names = [self.names.get(value, ("", "")) for value in values]
        yield from dict.fromkeys(row for row in zip(*names, strict=True) if any(row))

    def named(self, places: Sequence[int]) -> list[int]:
        """The values of statements whose names users or passes see."""
        return [
            value
            for place in places
            if is_named(type(self.code.statements[place]))
            for value in self.code.computed(place)
        ]

    def neighbours(self) -> tuple[list[int], list[int]]:
        """For each value the corresponding one of the next layer, and that of the layer before."""
        following, preceding = np.full((2, len(self.level)), NONE)
        own, other = self.layering.pairs()
        # Of several, that at the first place.
        following[own[::-1]] = other[::-1]
        known = self.following != NONE
        following[known] = self.following[known]
        followed = np.flatnonzero(following != NONE)
        preceding[following[followed]] = followed
        return following.tolist(), preceding.tolist()


def is_number(op: Operation) -> bool:
    """Whether an operation computes a scalar from scalars: those of all layers become one expression where
    they are used, as the sum of all squares of gradients, so that layers differ from then on.
    """
    if isinstance(op, ConstantOp) or not op.results:
        return False
    return all(shape_of(value).elements == 1 for value in (*op.results, *op.operands[:1]))


@cache
def is_named(kind: type[Operation]) -> bool:
    """Whether the names of operations of a kind are seen: others are made from those that they belong to."""
    return issubclass(kind, TensorOp) and not issubclass(kind, OfOp | ConstantOp)


def names_of(values: Iterable[SSAValue]) -> dict[int, tuple[str, str]]:
    """The label of each value that has memory, and its name, from which passes make labels. Empty where not
    unique.
    """
    found: dict[int, tuple[str, str]] = {}
    for number, value in enumerate(values):
        op, name = value.owner, value.name_hint or ""
        if not isinstance(op, OfOp):
            found[number] = (op.label.data if isinstance(op, MemoryOp) else name, name)
    # Apart, since `w` and `w_1` are labels of different memory whose values are both called `w`.
    labels, names = (Counter(both[k] for both in found.values()) for k in range(2))
    return {
        number: (label if labels[label] == 1 else "", name if names[name] == 1 else "")
        for number, (label, name) in found.items()
    }


def statements_of(routine: TexprRoutineOp) -> list[Operation]:
    """The operations of a routine but for comments."""
    return [op for op in operations_of(routine.body.block) if type(op) is not CommentOp]


def folding_of(routine: TexprRoutineOp, *, as_built: bool = False) -> Folding | None:
    """The folding of a routine whose layers are equal; `as_built`, before they have types."""
    statements = statements_of(routine)
    # Stages have different layers.
    if MICROBATCH in routine.mesh_sizes or any(isinstance(op, ScanOp) for op in statements):
        return None
    code = NumberedStatements(statements)
    for stretch in code.stretches:
        if stretch.stop - stretch.start < (LEAST_LAYERS - 1) * stretch.period:
            continue
        boundary = code.boundary(stretch)
        folding = None if boundary is None else Folding(Layering(code, stretch, boundary))
        if folding is not None and folding.is_possible(as_built=as_built):
            return folding
    return None


@dataclass(frozen=True)
class FoldLayersPass(ModulePass):
    """Leaves equal layers out, so that compile time does not grow with their number: loop rerolling, with the
    loop unrolled again by `unfold-layers` after the costly passes.

    Two layers stay at each end; an attribute of the routine lists those left out. It applies to the only
    routine of a module, if it has no scans, and to six layers or more, which depend only on the layer before.
    The original routine is replaced by its copy without the layers; with `keep` it stays, and an attribute of
    it lists all of them.
    """

    name = "fold-layers"
    keep: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = operations_of(op.body.block)
        if len(ops) != 1 or not isinstance(ops[0], TexprRoutineOp) or ATTRIBUTE in ops[0].attributes:
            return
        folding = folding_of(ops[0])
        if folding is None:
            return
        layers = Layers(folding.rows).attribute()
        if self.keep:
            ops[0].attributes[ALL_LAYERS] = layers
        else:
            folded = folding.folded(ops[0])
            folded.attributes[ATTRIBUTE] = layers
            ops[0].detach()
            op.body.block.add_op(folded)
