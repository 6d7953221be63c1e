"""`tile-and-fuse`: nests that share rows run row by row, so that what passes between them stays near."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.passes.analysis.footprints import NestFootprint
from ocannl.passes.analysis.memory import byte_size
from ocannl.passes.analysis.nests import (
    nodes,
    ungrouped,
)
from ocannl.passes.analysis.row_fusion import NestChain, is_far
from ocannl.passes.analysis.target import TargetDescription
from ocannl.passes.rewrites.row_grouper import (
    Grouper,
)
from ocannl.passes.rewrites.row_groups import Builder


class CpuGrouper(Grouper):
    """Weighs the traffic between caches that fusion saves against the cost of starting nests more often."""

    def begins(self, view: NestFootprint) -> bool:
        """It may be the first of a chain: it touches more of a node than waits in the caches."""
        return any(is_far(bytes, self.target) for bytes in view.reach.values())

    def saved(self, chain: NestChain) -> float:
        """What a chain saves; more of it, and more than nothing, is better."""
        return chain.saved(self.target, self.uses)

    def build(self, chain: NestChain) -> None:
        Builder(self.func, chain, self.labels, chain.blocks(self.target), self.target).build(self.uses)


@dataclass(frozen=True)
class TileAndFusePass(ModulePass):
    """Groups nests that share rows, so that they run for a few rows before they go on to the next.

    It applies where at one value of the shared variables each nest touches its own part of what one of them
    writes. What only the group touches lives inside of it, with room for a few rows. A sum over the rows is
    added up in a fixed number of parts. Nests of a group are fused. The policy: the cycles that loads and
    stores take to and from far caches are weighed against those that it takes to start a nest for each block
    of rows; a reduction must not read more than the first-level cache holds again for each of them.
    """

    name = "tile-and-fuse"

    vector_bytes: int = TargetDescription.vector_bytes
    vector_registers: int = TargetDescription.vector_registers
    l1_bytes: int = TargetDescription.l1_bytes
    l2_bytes: int = TargetDescription.l2_bytes
    cores: int = TargetDescription.cores

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = TargetDescription(
            self.vector_bytes, self.vector_registers, self.l1_bytes, self.l2_bytes, self.cores
        )
        for func in ungrouped(op):
            if any(is_far(byte_size(node), target) for node in nodes(func)):
                CpuGrouper(func, target).run()
