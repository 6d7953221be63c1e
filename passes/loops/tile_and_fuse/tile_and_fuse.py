"""`tile-and-fuse`: nests that share rows run block by block, so that values pass between them in a near
cache.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.footprints import NestFootprint
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.fusion.row_fusion import NestChain, is_far
from ocannl.passes.analysis.nests import functions, nodes
from ocannl.passes.analysis.patterns.dot_products import find_dot_product
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.rewrites.row_grouper import Grouper
from ocannl.passes.rewrites.row_groups import Builder


class CpuGrouper(Grouper):
    """Weighs the traffic between caches that fusion saves against the cost of starting nests more often."""

    def __init__(self, func: FuncOp, target: TargetDescription) -> None:
        super().__init__(func, target)
        self.joining: dict[NestOp, bool] = {}

    def may_join(self, view: NestFootprint) -> bool:
        """Whether a nest may be in a chain: products on a matrix unit have groups of their own."""
        if view.nest not in self.joining:
            is_product = find_dot_product(view.nest, self.target) is not None
            self.joining[view.nest] = super().may_join(view) and not is_product
        return self.joining[view.nest]

    def begins(self, view: NestFootprint) -> bool:
        """Whether a nest touches more of a node than stays in the caches of a core."""
        return any(is_far(bytes, self.target) for bytes in view.reach.values())

    def saved(self, chain: NestChain) -> float:
        """The cycles that a chain saves."""
        return chain.saved(self.target, self.uses)

    def build(self, chain: NestChain) -> None:
        Builder(self.func, chain, self.labels, chain.blocks(self.target), self.target).build(self.uses)


@dataclass(frozen=True)
class TileAndFusePass(TargetOptions, ModulePass):
    """Producer-consumer fusion by tiles: nests that share rows become a group that runs them for a block of
    rows before the next one (as Halide's `compute_at`, Ragan-Kelley et al., 2013, or `scf.tile_and_fuse` in
    MLIR).

    It applies where, at one value of the shared variables, each nest touches its own part of every node that
    one of them writes. Nodes that only the group touches are declared in it, with room for one block. A
    reduction over the rows is split into a fixed number of partial sums. Nests of a group are fused. A cost
    model weighs the cycles that loads and stores take to and from far caches against those to start a nest
    for each block of rows; for each block, a reduction may read no more again than the first-level cache
    holds.
    """

    name = "tile-and-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.target
        for func in functions(op):
            if any(is_far(byte_size(node), target) for node in nodes(func)):
                CpuGrouper(func, target).run()
