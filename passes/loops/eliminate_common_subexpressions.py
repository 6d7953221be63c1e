"""`eliminate-common-subexpressions`: equal values of a nest are computed once."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.rewrites.common_subexpressions import Eliminator


@dataclass(frozen=True)
class EliminateCommonSubexpressionsPass(ModulePass):
    """Common-subexpression elimination in each nest, by value numbering: of scalar operations, loads and
    whole reductions (Cocke, "Global Common Subexpression Elimination", 1970).

    Loads are equal if the nest stores nothing to their node in between. Reductions are equal if their bodies
    are, up to the names of variables; inside a reduction, values from around it are used again, but not the
    reverse.
    """

    name = "eliminate-common-subexpressions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in nests(func):
                Eliminator().run(nest.body.block)
