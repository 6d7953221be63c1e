"""Groups of variables that one loop can run over, because all accesses move by equal steps along it: loop
coalescing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TypeAlias

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops import NestOp, ReduceOp
from ocannl.dialects.loops.values import address_of
from ocannl.passes.analysis.nests import Indexed, operations

MergedLoops: TypeAlias = tuple[str, ...]


def mergeable_loops(nest: NestOp) -> tuple[MergedLoops, ...]:
    """The largest groups of the variables of a nest, and of each of its reductions; outermost variables
    first.
    """
    ops = operations(nest.body.block)
    addresses = [address_of(op) for op in ops if isinstance(op, Indexed)]
    spaces = [nest.space.data, *(op.space.data for op in ops if type(op) is ReduceOp)]
    return tuple(group for space in spaces for group in _groups(space, addresses) if len(group) > 1)


def _groups(space: Space, addresses: Sequence[Address]) -> list[MergedLoops]:
    sizes = dict(space)
    groups: list[MergedLoops] = [(name,) for name in sizes]
    while (pair := _pair(groups, sizes, addresses)) is not None:
        outer, inner = pair
        groups[groups.index(outer)] = outer + inner
        groups.remove(inner)
    return groups


def _pair(
    groups: Sequence[MergedLoops], sizes: dict[str, int], addresses: Sequence[Address]
) -> tuple[MergedLoops, MergedLoops] | None:
    """Two groups that can be one: in all accesses, a step of the first is as long as all
    steps of the second.
    """
    for outer, inner in permutations(groups, 2):
        used = [a for a in addresses if a.stride(outer[-1]) or a.stride(inner[0])]
        if used and all(address.moves_as_one((outer[-1], inner[0]), sizes) for address in used):
            return outer, inner
    return None
