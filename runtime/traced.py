"""Compilation of routines that keep what each assignment computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import (
    AccumOp,
    AssignRoutineOp,
    CollectiveOp,
    NodeOp,
    RangeOp,
    RepeatOp,
    UniformOp,
)
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.text_printer import op_text
from ocannl.lowering.pipelines import PassMaker
from ocannl.lowering.texpr_to_assign import LowerTexprToAssignPass
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.runtime.compile import Compilation, Executable
from ocannl.runtime.device import Device

KEPT = "its value is traced"
# How assignments of values begin.
OF_VALUES = "assign.accum "
OF_LOOPS = "assign.repeat "


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment of a routine: what it writes and reads, by labels, its text, and the user's line."""

    label: str
    operands: tuple[str, ...]
    text: str
    place: str | None

    @property
    def is_loop(self) -> bool:
        return self.text.startswith(OF_LOOPS)

    @property
    def shown(self) -> str:
        """The text without what only the compiler needs."""
        return self.text.partition(" ")[2].replace("%", "") if self.text.startswith(OF_VALUES) else self.text


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

    def run_passes(self, passes: Sequence[PassMaker]) -> None:
        unfolded = [made for made in passes if made is not FoldLayersPass]
        if LowerTexprToAssignPass not in unfolded:
            super().run_passes(unfolded)
            return
        split = unfolded.index(LowerTexprToAssignPass) + 1
        super().run_passes(unfolded[:split])
        routines = _outermost(self.module)
        for stage, routine in enumerate(routines):
            _rename_kept(routine, stage, _labels(routines[:stage]))
        self.assignments = [one for routine in routines for one in _keep_all(routine)]
        super().run_passes(unfolded[split:])


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


def _keep_all(routine: AssignRoutineOp) -> list[Assignment]:
    """Gives all nodes of a routine memory of their own; its assignments."""
    found: list[Assignment] = []
    for op in operations_of(routine.body.block):
        if isinstance(op, NodeOp) and op.mode.data == "local":
            op.properties["mode"], op.properties["why"] = StringAttr("on_device"), StringAttr(KEPT)
            op.properties.pop("always_inline", None)
        elif isinstance(op, AccumOp | RangeOp | UniformOp | RepeatOp | CollectiveOp):
            found += [_assignment(op, written) for written in _written(op)]
    return found


def _written(op: Operation) -> list[SSAValue]:
    if isinstance(op, AccumOp | RangeOp | UniformOp):
        return [op.lhs]
    assert isinstance(op, CollectiveOp | RepeatOp)
    return op.written


def _assignment(op: Operation, written: SSAValue) -> Assignment:
    reads_itself = isinstance(op, AccumOp) and op.accum is not None and op.reset is None
    operands = [value for value in op.operands if value is not written or reads_itself]
    labels = dict.fromkeys(value.owner.label.data for value in operands if isinstance(value.owner, NodeOp))
    assert isinstance(written.owner, NodeOp)
    return Assignment(written.owner.label.data, tuple(labels), op_text(op).strip(), location_text(op))
