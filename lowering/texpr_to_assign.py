"""`lower-texpr-to-assign`: nodes and their assignments, in order, for tensor expressions and code."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects import assign, texpr
from ocannl.dialects.records import dataclass
from ocannl.lowering.scans_to_assign import RoutineLowering
from ocannl.passes.analysis.equality.layers import ALL_LAYERS, equal_layers


@dataclass(frozen=True)
class LowerTexprToAssignPass(ModulePass):
    """Turns every `texpr.routine` into an `assign.routine`."""

    name = "lower-texpr-to-assign"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in list(op.body.block.ops):
            if isinstance(routine, texpr.TexprRoutineOp):
                bodies: list[assign.AssignRoutineOp] = []
                name, indices = routine.sym_name.data, routine.indices.data
                lowering = RoutineLowering(
                    routine.body.block, name, indices, bodies, mesh=routine.mesh, layers=equal_layers(routine)
                )
                attributes = {**routine.attributes}
                attributes.pop(ALL_LAYERS, None)
                lowered = lowering.run(attributes, routine.location)
                Rewriter.replace_op(routine, [*bodies, lowered])
