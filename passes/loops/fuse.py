"""`fuse`: nests over the same space become one nest."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import nests, ungrouped, ungrouped_steps
from ocannl.passes.rewrites.dead_stores import FUSED, mark_virtual, remove_dead_stores
from ocannl.passes.rewrites.fuser import Fuser
from ocannl.passes.rewrites.indices import drop_unit_variables


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Loop fusion: merges nests over the same space, up to the names and the order of its variables (Kennedy
    and McKinley, "Maximizing Loop Parallelism and Improving Data Locality via Loop Fusion and Distribution",
    1993).

    A nest moves up, then down, past nests that it does not depend on, to one that shares data with it
    (scalars: to any). Fusion is legal where every node that one of the two writes is touched by both at the
    same point only. Values that pass inside the merged nest are not loaded again, and a local node that is
    not loaded any more becomes `virtual`. A reduction takes pointwise neighbours in, but two reductions fuse
    only while both are small, because the scheduler tiles one contraction a nest, and a reduction never with
    random numbers. Nests with a schedule stay as they are.
    """

    name = "fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            for nest in nests(func):
                drop_unit_variables(nest)
            forwarded: set[SSAValue] = set()
            for upwards in (True, False):
                fuser = Fuser(func, upwards)
                fuser.run(ungrouped_steps(func))
                forwarded |= fuser.forwarded
                remove_dead_stores(func)
            mark_virtual(func, dict.fromkeys(forwarded, FUSED))
