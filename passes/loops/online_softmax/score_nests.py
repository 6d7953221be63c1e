"""The nests around a softmax that touch its scores, and how their variables run along the axes of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum, auto
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import accesses, names_in, node_mode, operations, used_nodes, variable_sizes
from ocannl.passes.loops.online_softmax.steps import StepOrder


class Kind(Enum):
    """`POINTS`: computes scores, point by point. `ROWS`: reduces them over the keys. `KEYS`: sums them over
    the rows.
    """

    POINTS = auto()
    ROWS = auto()
    KEYS = auto()


@dataclass(eq=False)
class ScoreNest:
    """A nest that touches scores at the index map `at`."""

    nest: NestOp
    at: Map
    sizes: Mapping[str, int]
    wide: set[SSAValue]
    kind: Kind = Kind.POINTS

    @cached_property
    def loads(self) -> list[LoadOp]:
        return [op for op in operations(self.nest.body.block) if isinstance(op, LoadOp)]

    @cached_property
    def stores(self) -> list[StoreOp]:
        return [op for op in self.nest.body.block.ops if isinstance(op, StoreOp)]

    @cached_property
    def reductions(self) -> list[ReduceOp]:
        return [op for op in operations(self.nest.body.block) if isinstance(op, ReduceOp)]

    @cached_property
    def inputs(self) -> list[SSAValue]:
        """The nodes that it reads, but for scores."""
        return [op.node for op in self.loads if op.node not in self.wide]

    @cached_property
    def written(self) -> list[SSAValue]:
        return [op.node for op in self.stores]

    @cached_property
    def scores(self) -> list[SSAValue]:
        """The scores that it reads."""
        return [op.node for op in self.loads if op.node in self.wide]


@dataclass
class ScoreNests:
    """All nests that touch some arrays of scores, in order; the axes of these along keys and along the rows
    that are cut into blocks, and the variables of the others.
    """

    wide: list[SSAValue]
    members: list[ScoreNest]
    keys: int
    rows: int = -1
    others: dict[int, Space] = field(default_factory=dict[int, Space])

    @property
    def shape(self) -> tuple[int, ...]:
        return memref_shape(self.wide[0])


def find_score_nests(order: StepOrder, scores: LoadOp, key: str) -> ScoreNests | None:
    """The nests that touch the same arrays as a load that a maximum over the variable `key` reduces, if all
    run over these in the same way.
    """
    axes = [axis for axis, index in enumerate(scores.indices.data) if index.variable == key]
    if len(axes) != 1 or node_mode(scores.node) != "local":
        return None
    wide, nests = touching(order, scores.node)
    own = sorted([op for op in nests if isinstance(op, NestOp)], key=lambda nest: order.positions[nest])
    found = [score_nest(nest, wide) for nest in own]
    members = [member for member in found if member is not None]
    together = ScoreNests(list(wide), members, axes[0])
    fits = len(members) == len(nests) and choose_axes(together)
    return together if fits and all(set_kind(member, together) for member in members) else None


def touching(order: StepOrder, scores: SSAValue) -> tuple[dict[SSAValue, None], set[Operation]]:
    """The local arrays of the same shape that nests touch together, directly or through others, and what
    touches them.
    """
    shape, wide, nests = memref_shape(scores), {scores: None}, set[Operation]()
    waiting = [scores]
    while waiting:
        for use in waiting.pop().uses:
            step = order.step_around(use.operation)
            if step in nests:
                continue
            nests.add(step)
            near = used_nodes(step) if isinstance(step, NestOp) else []
            alike = [node for node in near if node_mode(node) == "local" and memref_shape(node) == shape]
            waiting += [node for node in alike if node not in wide]
            wide |= dict.fromkeys(alike)
    return wide, nests


def score_nest(nest: NestOp, wide: Iterable[SSAValue]) -> ScoreNest | None:
    """None for a nest that has a schedule, or touches scores at several places or on a diagonal."""
    own = set(wide)
    found = [op for op in accesses(nest) if op.node in own]
    maps = {op.indices.data for op in found}
    if len(maps) != 1 or any(op.positions for op in found) or nest.schedule is not None or nest.clashing:
        return None
    (at,) = maps
    names = [name for index in at for name in index.names]
    return ScoreNest(nest, at, variable_sizes(nest), own) if len(set(names)) == len(names) else None


def choose_axes(nests: ScoreNests) -> bool:
    """Chooses the axis of rows, the longest one on which no key depends, and variables along the others.
    Whether all nests have such.
    """
    for axis, size in enumerate(nests.shape):
        found = [radix(member, axis) for member in nests.members]
        spaces = [space for space in found if space is not None]
        longest = max(spaces, key=len, default=())
        if len(spaces) < len(found) or not all(sizes(s) in ((size,), sizes(longest)) for s in spaces if s):
            return False
        nests.others[axis] = longest
    single = {axis for axis in nests.others if all(m.at[axis].variable for m in nests.members)}
    free = [axis for axis in single - {nests.keys} if not shared_with_keys(nests, axis)]
    if nests.keys not in single or not free:
        return False
    nests.rows = max(free, key=lambda axis: nests.shape[axis])
    del nests.others[nests.keys], nests.others[nests.rows]
    return True


def sizes(space: Space) -> tuple[int, ...]:
    return tuple(size for _, size in space)


def radix(member: ScoreNest, axis: int) -> Space | None:
    """The variables that run along an axis, as the digits of a number, with their sizes; None if they do not
    reach each of its elements once.
    """
    index, size = member.at[axis], memref_shape(next(iter(member.wide)))[axis]
    terms = [(name, step) for name, step in index.terms if member.sizes.get(name) != 1]
    digits = sorted(terms, key=lambda term: -term[1])
    least = size
    for name, coefficient in digits:
        if least != coefficient * member.sizes.get(name, 0):
            return None
        least = coefficient
    return None if least != 1 or index.constant else tuple((name, member.sizes[name]) for name, _ in digits)


def shared_with_keys(nests: ScoreNests, axis: int) -> bool:
    """Whether an operand of the products that make scores depends on the keys and on the axis."""
    for member in nests.members:
        key, row = member.at[nests.keys].variable, member.at[axis].variable
        for reduction in member.reductions:
            for op in reduction.body.block.ops:
                if isinstance(op, LoadOp) and key not in reduction.space.names and op.node not in member.wide:
                    used = names_in(op.indices.data)
                    if key in used and row in used and row not in reduction.space.names:
                        return True
    return False


def set_kind(member: ScoreNest, nests: ScoreNests) -> bool:
    """Finds out what a nest does with scores. Whether that is one of the kinds."""
    key, row = member.at[nests.keys].variable, member.at[nests.rows].variable
    mapped = {name for index in member.at for name in index.names}
    own, wide = set(member.nest.space.names), member.wide
    summed = [op for op in member.reductions if not mapped.isdisjoint(op.space.names)]
    if not summed:
        member.kind = Kind.POINTS
        return mapped <= own and all(op.node in wide for op in member.stores)
    if len(member.reductions) > 1 or len(member.stores) != 1 or member.stores[0].node in wide:
        return False
    reduced = set(summed[0].space.names)
    member.kind = Kind.ROWS if key in reduced else Kind.KEYS
    if member.kind is Kind.ROWS:
        return reduced == {key}
    return row in reduced and reduced <= mapped and key in own and summed[0].accum.data == "add"


def variable(index: Linear) -> str:
    """The variable that an index is."""
    assert index.variable is not None
    return index.variable
