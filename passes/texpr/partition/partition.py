"""`partition`: a program for all ranks of a mesh becomes that of each one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import MapAttr, SpaceAttr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ForwardOp,
    MemoryOp,
    OfOp,
    TensorOp,
    TexprRoutineOp,
    ValueOp,
)
from ocannl.dialects.texpr.placement import PlacementAttr, SplitAxis
from ocannl.dialects.texpr.tensor_type import refine_type, tensor_type
from ocannl.passes.analysis.final_shapes import check_shapes
from ocannl.passes.analysis.infer_placements.problem import Placements, Split
from ocannl.passes.analysis.infer_placements.solver import ImpossiblePlacement, solve
from ocannl.passes.texpr.partition.divide import Divider, local_space, moved_maps
from ocannl.passes.texpr.partition.program import FREE, Program, placement_of
from ocannl.passes.texpr.partition.versions import Versions
from ocannl.passes.texpr.partition.ways import Cut, Dividing


class Partition:
    """One routine on one axis of its mesh."""

    def __init__(self, routine: TexprRoutineOp, mesh: str, ranks: int) -> None:
        self.routine, self.mesh = routine, mesh
        dividing = Dividing(ranks, f"{mesh}.rank")
        self.program = Program(routine, mesh, dividing)
        self.versions = Versions(dividing, mesh, frozenset((*routine.ranges, dividing.rank)))
        self.divider = Divider(self._add_leaf)

    def rewrite(self, placements: Placements) -> None:
        """Makes the routine that of one rank."""
        ops = operations_of(self.routine.body.block)
        for op in ops:
            if isinstance(op, TensorOp):
                self.versions.types |= {result: tensor_type(result) for result in op.results}
        cuts = self._chosen(placements)
        for op in ops:
            self._rewrite(op, cuts, placements)
        for op in ops:
            if isinstance(op, FREE) and op.result.first_use is None:
                Rewriter.erase_op(op)
        indices = (*self.routine.indices.data, (self.program.dividing.rank, self.program.dividing.ranks))
        self.routine.properties["indices"] = IndicesAttr(indices)

    def solve(self) -> Placements:
        """Raises `OcannlError` for placements that cannot be."""
        for op in operations_of(self.routine.body.block):
            check_shapes(op)
        problem = self.program.problem()
        try:
            return solve(problem)
        except ImpossiblePlacement as error:
            op = self.program.ops[error.step]
            message = f'the placements over "{self.mesh}" cannot be: this needs whole what is split in memory'
            raise OcannlError(at_line(op, message)) from None

    def _chosen(self, placements: Placements) -> dict[Operation, Cut]:
        """The cut of each operation."""
        return {
            op: next(cut for cut in self.program.cuts[op] if cut.way is way)
            for op, way in zip(self.program.ops, placements.ways, strict=True)
        }

    def _split(self, value: SSAValue, placements: Placements) -> Split:
        return placements.splits[self.program.numbers[value]]

    def _rewrite(self, op: Operation, cuts: dict[Operation, Cut], placements: Placements) -> None:
        match op:
            case MemoryOp() | OfOp():
                self._place_memory(op, self._split(op.result, placements))
            case ApplyOp():
                self._apply(op, cuts[op], self._split(op.result, placements))
            case AssignOp():
                self._assign(op, cuts[op])
            case ForwardOp():
                self._note_split(op.tensor, self._split(op.tensor, placements))
                op.operands = [self.versions.kept(op.tensor)]
            case TensorOp() if not isinstance(op, FREE):
                way = cuts[op].way
                needs = zip(op.operands, way.needs, strict=True)
                op.operands = [self.versions.of(value, need) for value, need in needs]
                for result, gives in zip(op.results, way.gives, strict=True):
                    refine_type(result, self.versions.local_type(result, gives))
                    self.versions.define(result, result, gives, self._split(result, placements), "add")
            case _:
                pass

    def _place_memory(self, op: MemoryOp | OfOp, split: Split) -> None:
        if isinstance(op, ValueOp):
            self._note_split(op.source, split)
        if isinstance(op, OfOp):
            op.operands = [self.versions.kept(op.source)]
        refine_type(op.result, self.versions.local_type(op.result, split))
        self._note(op, op.result, split)
        self.versions.known[op.result, split] = op.result
        self.versions.splits[op.result] = split

    def _note_split(self, value: SSAValue, split: Split) -> None:
        """Notes the splits of an expression that is kept in memory, with those over earlier mesh axes."""
        owner = value.owner
        if not isinstance(owner, TensorOp) or isinstance(owner, MemoryOp | OfOp):
            return
        earlier = placement_of(owner)
        if split >= 0 or earlier.splits:
            kept = self.versions.own_operation(value, split)
            if kept is not owner:
                kept.properties["placement"] = PlacementAttr(earlier)
                owner.properties.pop("placement", None)
            self._note(kept, value, split)

    def _note(self, op: MemoryOp | OfOp | ApplyOp, value: SSAValue, split: Split) -> None:
        known = placement_of(op)
        if split < 0 or any(own.mesh == self.mesh for own in known.splits):
            return
        size = self.versions.types[value].shape.data.memory_sizes[split]
        op.properties["placement"] = PlacementAttr(known.with_split(SplitAxis(split, size, self.mesh)))

    def _apply(self, op: ApplyOp, cut: Cut, split: Split) -> None:
        operands = [self.versions.of(v, need) for v, need in zip(op.args, cut.way.needs, strict=True)]
        if cut.way.along or operands != [*op.args]:
            self.divider.divide(op, cut, operands)
        (gives,) = cut.way.gives
        refine_type(op.result, self.versions.local_type(op.result, gives))
        self.versions.define(op.result, op.result, gives, split, op.accum_name or "add")

    def _assign(self, op: AssignOp, cut: Cut) -> None:
        assert op.value_map is not None
        assert op.space is not None
        needs = cut.way.needs
        pairs = zip((op.value, *op.ids), needs, strict=True)
        op.operands = [op.target, *(self.versions.of(value, need) for value, need in pairs)]
        (divided,) = cut.divided
        if divided is not None:
            maps = moved_maps(divided, [op.value_map.data, *op.maps_of_ids], needs)
            op.properties["value_map"] = MapAttr(maps[0])
            op.properties["space"] = SpaceAttr(local_space(op.space.data, divided))
            if op.ids:
                op.properties["id_maps"] = ArrayAttr([MapAttr(own) for own in maps[1:]])

    def _add_leaf(self, op: TensorOp) -> SSAValue:
        first = self.routine.body.block.first_op
        assert first is not None
        op.location = self.routine.location
        self.routine.body.block.insert_op_before(op, first)
        return op.result


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Partitions programs over a mesh (SPMD partitioning, as in GSPMD by Xu et al., 2021): infers how each
    value is split from what the program says of some, makes each operation that of one rank, and adds
    collectives where values move. One mesh axis after another.
    """

    name = "partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                for mesh, ranks in routine.mesh_sizes.items():
                    if ranks > 1 and f"{mesh}.rank" not in routine.ranges:
                        partition = Partition(routine, mesh, ranks)
                        partition.rewrite(partition.solve())
