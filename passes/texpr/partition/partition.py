"""`partition`: a program for all ranks of a mesh becomes that of each one."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import MICROBATCH, STAGE, IndicesAttr
from ocannl.dialects.texpr import TexprRoutineOp
from ocannl.dialects.texpr.nested import nested
from ocannl.passes.analysis.final_shapes import check_shapes
from ocannl.passes.analysis.infer_placements.problem import Placements
from ocannl.passes.analysis.infer_placements.solver import ImpossiblePlacement, solve
from ocannl.passes.texpr.partition.asked_axes import check_axes
from ocannl.passes.texpr.partition.in_time import keep_memory_whole
from ocannl.passes.texpr.partition.program import Program
from ocannl.passes.texpr.partition.rewriting import Rewriting
from ocannl.passes.texpr.partition.scans import cuts_of_scan
from ocannl.passes.texpr.partition.ways import Dividing


class Partition:
    """One routine on one axis of its mesh."""

    def __init__(self, routine: TexprRoutineOp, mesh: str, ranks: int) -> None:
        self.routine = routine
        self.rank = f"{mesh}.rank", ranks
        self.program = Program(routine.body.block, mesh, Dividing(ranks, f"{mesh}.rank"), cuts_of_scan)

    def solve(self) -> Placements:
        """Raises `OcannlError` for placements that cannot be."""
        for op in nested(self.routine.body.block):
            check_shapes(op)
        problem, mesh = self.program.problem(), self.program.mesh
        try:
            return solve(problem)
        except ImpossiblePlacement as error:
            op = self.program.ops[error.step]
            message = f'the placements over "{mesh}" cannot be: this needs whole what is split in memory'
            raise OcannlError(at_line(op, message)) from None

    def rewrite(self, placements: Placements, *, notes: bool = False) -> None:
        """Makes the routine that of one rank; with `notes`, notes the splits of all values."""
        names = frozenset((*self.routine.ranges, self.rank[0]))
        noted = self.routine.mesh_sizes if notes else None
        Rewriting(self.program, placements, names, noted).run()
        self.routine.properties["indices"] = IndicesAttr((*self.routine.indices.data, self.rank))


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Partitions programs over a mesh (SPMD partitioning, as in GSPMD by Xu et al., 2021): infers how each
    value is split from what the program says of some, makes each operation that of one rank, and adds
    collectives where values move. One mesh axis after another; microbatches are one in time. With `notes`, it
    notes the splits of all values beside the text.
    """

    name = "partition"
    notes: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                check_axes(routine, routine.mesh_sizes)
                for mesh, ranks in routine.mesh_sizes.items():
                    if ranks > 1 and mesh != STAGE and f"{mesh}.rank" not in routine.ranges:
                        if mesh == MICROBATCH:
                            keep_memory_whole(routine, ranks)
                        partition = Partition(routine, mesh, ranks)
                        partition.rewrite(partition.solve(), notes=self.notes)
