"""The ways to divide operations with index maps along one mesh axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Map, Space
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.texpr import ApplyOp, AssignOp, ConstantOp, EmbedOp, TensorOp
from ocannl.dialects.texpr.collectives import CollectiveOp, part_of
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Split, Way
from ocannl.passes.texpr.partition.variables import Divided

SUM = "sum"
"""The name of the way that divides a sum into parts, which are added afterwards."""


@dataclass(frozen=True)
class Dividing:
    """The ranks of a mesh axis, and the static index that tells which one this is."""

    ranks: int
    rank: str

    def variable(self, name: str, space: Space) -> Divided:
        return Divided(name, dict(space), self.ranks, self.rank)


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to divide an operation, and the variable of each part that is divided, if one is."""

    way: Way
    divided: tuple[Divided | None, ...]


class SizedPart(NamedTuple):
    """A part of an operation, with the sizes of its operands."""

    part: Part
    read: Sequence[Sequence[int]]


def sizes_of(values: Sequence[SSAValue]) -> list[tuple[int, ...]]:
    return [shape_of(value).memory_sizes for value in values]


def cuts_of(op: ApplyOp, dividing: Dividing) -> list[Cut]:
    """The ways of an operation: whole, along each axis of its result, along what is reduced, as a sum."""
    operands, parts = (
        len(op.args),
        [SizedPart(part, sizes_of(part.combination.operands)) for part in op.parts],
    )
    points = sum(points_of(part.space) for part, _ in parts)
    cuts = [Cut(Way("", (WHOLE,) * operands, (WHOLE,), points), (None,) * len(parts))]
    sizes = shape_of(op.result).memory_sizes
    for axis in range(len(sizes)):
        cuts += _along_axis(parts, axis, sizes, dividing)
    if len(parts) == 1 and op.accum_name is not None:
        cuts += _along_reduced(*parts[0], op.accum_name, sizes, dividing)
    cuts += _as_sum(op, points)
    return cuts


def _along_axis(
    parts: Sequence[SizedPart], axis: int, sizes: Sequence[int], dividing: Dividing
) -> Iterator[Cut]:
    """The way along an axis of the result, if each part has a variable there whose values are all of it."""
    divided: list[Divided] = []
    needs: list[Split] = []
    for part, read in parts:
        found = _divides(part, read, axis, sizes, dividing)
        if found is None:
            return
        divided.append(found[0])
        needs += found[1]
    points = sum(points_of(part.space) for part, _ in parts)
    way = Way(divided[0].name, tuple(needs), (axis,), part_of(points, dividing.ranks))
    yield Cut(way, tuple(divided))


def _divides(
    part: Part, read: Sequence[Sequence[int]], axis: int, sizes: Sequence[int], dividing: Dividing
) -> tuple[Divided, list[Split]] | None:
    """The variable of a part along which an axis of its result is split, and what it needs of operands."""
    variables = {name for name, _ in part.space}
    for name in part.result_map[axis].names:
        if name in variables:
            divided = dividing.variable(name, part.space)
            if divided.split_of(part.result_map, sizes) == axis:
                needs = needs_of(divided, part.combination.maps, read)
                if needs is not None:
                    return divided, needs
    return None


def needs_of(divided: Divided, maps: Sequence[Map], sizes: Sequence[Sequence[int]]) -> list[Split] | None:
    """The splits of operands of some sizes that a division needs; None where those of parts do not fit."""
    found: list[Split] = []
    for indices, own in zip(maps, sizes, strict=True):
        split = divided.split_of(indices, own)
        if split is None:
            return None
        found.append(split)
    return found


def _along_reduced(
    part: Part, read: Sequence[Sequence[int]], accum: str, sizes: Sequence[int], dividing: Dividing
) -> Iterator[Cut]:
    """The ways along variables that are reduced, or that add into overlapping parts of the result."""
    for name, _ in part.space:
        divided = dividing.variable(name, part.space)
        is_kept = any(index.coefficient(name) for index in part.result_map)
        if is_kept and (accum != "add" or divided.split_of(part.result_map, sizes) != WHOLE):
            continue
        needs = needs_of(divided, part.combination.maps, read)
        if needs is not None:
            points = part_of(points_of(part.space), dividing.ranks)
            yield Cut(Way(name, tuple(needs), (PARTIAL,), points), (divided,))


def _as_sum(op: ApplyOp, points: int) -> Iterator[Cut]:
    """The way of an operation that is linear in operands which are parts of sums."""
    if op.accum_name not in (None, "add"):
        return
    needs: list[Split] = []
    for part in op.parts:
        own = part.combination.operands
        terms = linear_in(part.combination.term, own)
        if not terms:
            return
        needs += [PARTIAL if place in terms else WHOLE for place in range(len(own))]
    yield Cut(Way(SUM, tuple(needs), (PARTIAL,), points), (None,) * len(op.parts))


def linear_in(term: Term, operands: Sequence[SSAValue]) -> frozenset[int] | None:
    """The operands of which a term is a sum of multiples by numbers; None for any other term."""
    match term:
        case Arg(index) if not is_number(term, operands):
            return frozenset([index])
        case App("neg", (inner,)):
            return linear_in(inner, operands)
        case App("add" | "sub", (left, right)):
            found = linear_in(left, operands), linear_in(right, operands)
            return None if found[0] is None or found[1] is None else found[0] | found[1]
        case App("mul" | "div", (inner, number)) if is_number(number, operands):
            return linear_in(inner, operands)
        case App("mul", (number, inner)) if is_number(number, operands):
            return linear_in(inner, operands)
        case _:
            return None


def is_number(term: Term, operands: Sequence[SSAValue]) -> bool:
    return isinstance(term, Const) or (
        isinstance(term, Arg) and isinstance(operands[term.index].owner, ConstantOp | EmbedOp)
    )


def cuts_of_assignment(op: AssignOp, dividing: Dividing) -> list[Cut]:
    """The ways of an assignment: whole, and along each axis of its memory. Its operands are the value and
    what positions are.
    """
    assert op.result_map is not None
    assert op.value_map is not None
    assert op.space is not None
    space, operands = op.space.data, (op.value, *op.ids)
    maps, read = (op.value_map.data, *op.maps_of_ids), sizes_of(operands)
    cuts = [Cut(Way("", (WHOLE,) * len(operands), (WHOLE,), points_of(space)), (None,))]
    sizes = shape_of(op.target).memory_sizes
    for axis, index in enumerate(op.result_map.data):
        for name in index.names:
            if name not in dict(space):
                continue
            divided = dividing.variable(name, space)
            needs = needs_of(divided, maps, read)
            if divided.split_of(op.result_map.data, sizes) == axis and needs is not None:
                points = part_of(points_of(space), dividing.ranks)
                cuts.append(Cut(Way(name, tuple(needs), (axis,), points), (divided,)))
    return cuts


def cuts_of_other(op: TensorOp) -> list[Cut]:
    """The ways of an operation without index maps: whole, and for a collective over another mesh axis along
    all axes that it leaves as they are.
    """
    cuts = [Cut(Way("", (WHOLE,) * len(op.operands), (WHOLE,) * len(op.results)), ())]
    if isinstance(op, CollectiveOp):
        for axis in range(len(shape_of(op.result).memory_sizes)):
            if axis not in op.moved_axes:
                ways = (axis,) * len(op.operands), (axis,) * len(op.results)
                cuts.append(Cut(Way(f"axis {axis}", *ways), ()))
    return cuts


def points_of(space: Space) -> int:
    return math.prod(size for _, size in space)
