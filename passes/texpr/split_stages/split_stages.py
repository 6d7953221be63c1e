"""`split-stages`: the program of all ranks becomes that of each stage, microbatch by microbatch."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import MICROBATCH, STAGE, IndicesAttr
from ocannl.dialects.texpr import TexprRoutineOp
from ocannl.passes.analysis.pipeline_schedules import SCHEDULES, Schedule
from ocannl.passes.texpr.split_stages.emission import Emission, StageProgram
from ocannl.passes.texpr.split_stages.microbatches import RANK, Microbatches
from ocannl.passes.texpr.split_stages.splitting import Splitting
from ocannl.passes.texpr.split_stages.stages import Stages


@dataclass(frozen=True)
class SplitStagesPass(ModulePass):
    """Pipeline parallelism: one routine for each stage, in which microbatches take their turns by a schedule,
    `1f1b` (PipeDream-Flush; Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021) or
    `gpipe` (Huang et al., 2019), and what another stage needs is sent to it.
    """

    name = "split-stages"
    schedule: str = "1f1b"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.schedule not in SCHEDULES:
            raise OcannlError(f"a schedule is one of {', '.join(SCHEDULES)}, found {self.schedule}")
        schedule = SCHEDULES[SCHEDULES.index(self.schedule)]
        for routine in operations_of(op.body.block):
            if isinstance(routine, TexprRoutineOp) and MICROBATCH in routine.mesh_sizes:
                Rewriter.replace_op(routine, split(routine, schedule), [])


def split(routine: TexprRoutineOp, schedule: Schedule) -> list[TexprRoutineOp]:
    """The routines of the stages, in order; one alone keeps its name. Raises `OcannlError`."""
    ops, mesh = operations_of(routine.body.block), routine.mesh_sizes
    stages = Stages(ops, mesh.get(STAGE, 1))
    stages.infer()
    microbatches = Microbatches(ops, stages)
    microbatches.find()
    emission = Emission(stages, microbatches, mesh[MICROBATCH], frozenset(routine.ranges))
    Splitting(ops, stages, microbatches, emission, schedule).run()
    return [_routine(routine, program, stage) for stage, program in enumerate(emission.programs)]


def _routine(whole: TexprRoutineOp, program: StageProgram, stage: int) -> TexprRoutineOp:
    mesh, name = whole.mesh_sizes, whole.sym_name.data
    body = Region(Block([*program.expressions, *program.statements]))
    made = TexprRoutineOp(name, [], body, dict(whole.attributes), whole.location)
    ranks = {axis: size for axis, size in mesh.items() if axis != MICROBATCH}
    if ranks:
        made.set_mesh(ranks)
    if mesh.get(STAGE, 1) > 1:
        made.properties["sym_name"] = StringAttr(f"{name}.{stage}")
    made.properties["indices"] = IndicesAttr(tuple(own for own in whole.indices.data if own[0] != RANK))
    return made
