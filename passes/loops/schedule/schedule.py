"""`schedule`: chooses a loop order, a register tile and vector lanes for every nest, and the loops that
threads share.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.kept_copies import unwritten
from ocannl.passes.analysis.dataflow.loop_invariants import iterations
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import all_steps, functions, uncalled
from ocannl.passes.analysis.schedules.schedule_candidates import FindChoices, no_choices
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.loops.schedule.scheduler import Scheduler


@dataclass(frozen=True)
class SchedulePass(TargetOptions, ModulePass):
    """Chooses schedules by a cost model: loop permutation, register tiling, vectorization, packing of
    operands into contiguous panels (Goto and van de Geijn, "Anatomy of High-Performance Matrix
    Multiplication", 2008), and the loops that threads share. Nests that have a schedule keep it.

    Attributes:
        keep: keeps packed copies of parameters that the routine does not write, where that pays: whoever
            writes them has to count the writes.
        find: finds choices that were made before for a nest or group, by its canonical text; the cost model
            decides on the others. Given in Python only: it is no option of a textual pipeline.
    """

    name = "schedule"

    keep: bool = False
    find: FindChoices = no_choices

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheduler = Scheduler(self.target)
        called_by_none, loops = uncalled(op), iterations(op)
        for func in functions(op):
            may_keep = self.keep and func in called_by_none
            scheduler.begin(func, unwritten(func) if may_keep else frozenset(), loops.get(func.sym_name.data))
            for step in all_steps(func):
                scheduler.forget_copies(step)
                if isinstance(step, NestOp | GroupOp):
                    scheduler.run(step, None if self.find is no_choices else self.find(canonical_text(step)))
