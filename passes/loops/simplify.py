"""`simplify`: algebraic simplification of the bodies of nests, and dead-code elimination."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.rewrites.dead_code import remove_unused_operations
from ocannl.passes.rewrites.indices import drop_unit_variables
from ocannl.passes.rewrites.simplification import simplify_block


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Algebraic simplification, constant folding and dead-code elimination of the scalar operations of nests
    (Muchnick, "Advanced Compiler Design and Implementation", chapter 12).

    Constants are folded as the operation would compute them; variables of size 1 become the index 0, and
    reductions without variables their bodies. Results stay the same to the bit, with two exceptions: the sign
    of a zero (`x + 0` is `x`), and a product that only one sum needs becomes a `math.fma`, which rounds once.
    NaN and infinities survive: `x * 0` and `x - x` stay.
    """

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            for nest in nests(func):
                drop_unit_variables(nest)
                simplify_block(nest.body.block)
                remove_unused_operations(nest.body.block)
