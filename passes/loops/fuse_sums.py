"""`fuse-sums`: nests that reduce the same arrays become one nest, for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.fusion.fusion_legality import LONGEST_NEST, NestSummary, Renaming
from ocannl.passes.analysis.nests import all_steps, functions, names_in, operations, substituted
from ocannl.passes.analysis.patterns.contractions import find_contraction
from ocannl.passes.analysis.schedules.shared_reductions import choose_lanes, is_long
from ocannl.passes.rewrites.fuser import Fuser

# The reductions of a nest, at most: each has registers of its own.
MOST_SUMS = 8


@dataclass(frozen=True)
class FuseSumsPass(ModulePass):
    """Horizontal fusion (Li et al., "Automatic Horizontal Fusion for GPU Kernels", 2022) of reductions over
    the same space that read the same array: it is read once.

    The gradients of the gain, the offset and the statistics of a batch norm are such sums. Those that read
    the same arrays are fused first, then those of which one reads some of what the other one reads.
    """

    name = "fuse-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for is_close in (equal, within, overlap):
                Fuser(func, True, partial(pays, is_close)).run(all_steps(func))


Places: TypeAlias = set[tuple[SSAValue, Map]]


def equal(one: Places, other: Places) -> bool:
    return one == other


def within(one: Places, other: Places) -> bool:
    return one <= other or other <= one


def overlap(one: Places, other: Places) -> bool:
    return not one.isdisjoint(other)


def pays(
    is_close: Callable[[Places, Places], bool], target: NestSummary, group: NestSummary, renaming: Renaming
) -> bool:
    """Whether both nests are sums across rows, over the same space, of arrays that are close; and none needs
    another one, so that one loop has them all.
    """
    if target.length + group.length > LONGEST_NEST:
        return False
    if not group.accesses.read.isdisjoint(target.accesses.written):
        return False
    theirs, ours = sums(target.nest), sums(group.nest)
    sizes = {tuple(size for _, size in op.space.data) for op in (*theirs, *ours)}
    if not theirs or not ours or len(sizes) != 1 or len(theirs) + len(ours) > MOST_SUMS:
        return False
    read = [places(theirs, {}), places(ours, renaming)]
    return all(read) and is_close(*read) and is_across(target.nest, theirs) and is_across(group.nest, ours)


def sums(nest: NestOp) -> list[ReduceOp]:
    return [op for op in nest.body.block.ops if isinstance(op, ReduceOp)]


def is_across(nest: NestOp, sums: list[ReduceOp]) -> bool:
    """Whether neighbouring threads stand beside each other in rows that are added up."""
    is_product = find_contraction(nest) is not None or find_contraction(nest, merges=True) is not None
    return not is_product and all(map(is_long, sums)) and not choose_lanes(nest, sums).is_inner


def places(sums: Iterable[ReduceOp], renaming: Renaming) -> Places:
    """Where reductions load from at each of their points; their own variables are named by their order."""
    found: Places = set()
    for op in sums:
        own = {name: Linear.var(f"#{place}") for place, name in enumerate(op.space.names)}
        for load in operations(op.body.block):
            if isinstance(load, LoadOp) and not load.positions and own.keys() <= names_in(load.indices.data):
                found.add((load.node, substituted(load.indices, {**renaming, **own}).data))
    return found
