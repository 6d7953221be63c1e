"""Compilation of routines that keep what each assignment computes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ocannl.dialects.assign import AssignRoutineOp, NodeOp, RepeatOp
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.lowering.pipelines import PassMaker, WithOptions
from ocannl.lowering.texpr_to_assign import LowerTexprToAssignPass
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.passes.texpr.partition.partition import PartitionPass
from ocannl.runtime.assignments import Assignment
from ocannl.runtime.compile import Compilation, Executable
from ocannl.runtime.device import Device
from ocannl.runtime.traced_loops import KeptRoutines

_NOTED_PARTITION = WithOptions(PartitionPass, (("notes", True),))


def compile_traced(module: ModuleOp, target: str, device: Device) -> tuple[Executable, list[Assignment]]:
    """Compiles a module with one routine, in place, so that all of its nodes have memory of their own; and
    its assignments in order. Layers are not folded, and nothing comes from the cache.
    """
    compilation = TracedCompilation(module, target, device, None)
    try:
        return compilation.run(), compilation.assignments
    finally:
        compilation.progress.end()


class TracedCompilation(Compilation):
    """The compilation of one module whose nodes are kept."""

    assignments: list[Assignment]

    def run(self) -> Executable:
        self.infer()
        return self.finish(self.lower(), self.module)

    def run_passes(self, passes: Sequence[PassMaker], module: ModuleOp | None = None) -> None:
        unfolded = [
            _NOTED_PARTITION if made is PartitionPass else made
            for made in passes
            if made is not FoldLayersPass
        ]
        if LowerTexprToAssignPass not in unfolded:
            super().run_passes(unfolded, module)
            return
        split = unfolded.index(LowerTexprToAssignPass) + 1
        super().run_passes(unfolded[:split], module)
        routines = _outermost(self.module)
        for stage, routine in enumerate(routines):
            _rename_kept(routine, stage, _labels(routines[:stage]))
        kept = KeptRoutines()
        self.assignments = [one for routine in routines for one in kept.keep(routine)]
        super().run_passes(unfolded[split:], module)


def _outermost(module: ModuleOp) -> list[AssignRoutineOp]:
    """The routine, or that of each stage, without bodies of loops."""
    found = [op for op in operations_of(module.body.block) if isinstance(op, AssignRoutineOp)]
    repeated = {op.body.data for op in module.walk() if isinstance(op, RepeatOp)}
    return [routine for routine in found if routine.sym_name.data not in repeated]


def _labels(routines: Sequence[AssignRoutineOp]) -> set[str]:
    return {op.label.data for each in routines for op in each.walk() if isinstance(op, NodeOp)}


def _rename_kept(routine: AssignRoutineOp, stage: int, taken: set[str]) -> None:
    """Gives local nodes of a stage other labels than those before it have, whose values are others."""
    for op in operations_of(routine.body.block):
        if isinstance(op, NodeOp) and op.mode.data == "local" and op.label.data in taken:
            op.properties["label"] = StringAttr(f"{op.label.data} of stage {stage}")
