"""Blocks of a routine for all ranks become those of one rank."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import MapAttr, SpaceAttr
from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ForwardOp,
    MemoryOp,
    OfOp,
    ScanOp,
    TensorOp,
    ValueOp,
    YieldOp,
)
from ocannl.dialects.texpr.placement import PlacementAttr
from ocannl.dialects.texpr.tensor_type import refine_type, tensor_type
from ocannl.passes.analysis.infer_placements.problem import Placements, Split
from ocannl.passes.texpr.partition.divide import Divider, local_space, moved_maps
from ocannl.passes.texpr.partition.noted_splits import note_splits
from ocannl.passes.texpr.partition.program import FREE, Program, placement_of
from ocannl.passes.texpr.partition.scans import ScanCut
from ocannl.passes.texpr.partition.versions import Versions
from ocannl.passes.texpr.partition.ways import Cut


class Rewriting:
    """Rewrites a block, with placements of its values; `taken` are the names of static indices, `noted` the
    sizes of the mesh where the splits of all values are noted.
    """

    def __init__(
        self,
        program: Program,
        placements: Placements,
        taken: frozenset[str],
        noted: Mapping[str, int] | None = None,
    ) -> None:
        self.program, self.placements, self.taken, self.noted = program, placements, taken, noted
        self.cuts: Mapping[Operation, Cut] = {
            op: next(cut for cut in program.cuts[op] if cut.way is way)
            for op, way in zip(program.ops, placements.ways, strict=True)
        }
        weights = frozenset(v for v, number in program.numbers.items() if program.values[number].is_weight)
        self.versions = Versions(program.dividing, program.mesh, taken, weights)
        self.divider = Divider(self._add_leaf)

    def run(self) -> None:
        ops = operations_of(self.program.block)
        for argument in self.program.block.args:
            self._place_argument(argument, self._split(argument))
        for op in ops:
            if isinstance(op, TensorOp):
                self.versions.types |= {result: tensor_type(result) for result in op.results}
        for op in ops:
            self._rewrite(op)
        for op in ops:
            if isinstance(op, FREE) and op.result.first_use is None:
                Rewriter.erase_op(op)
        if self.noted is not None:
            note_splits(self.versions, self.noted)

    def _place_argument(self, argument: SSAValue, split: Split) -> None:
        self.versions.types[argument] = tensor_type(argument)
        refine_type(argument, self.versions.local_type(argument, split))
        self.versions.add(argument, split, argument)
        self.versions.splits[argument] = split

    def _split(self, value: SSAValue) -> Split:
        return self.placements.splits[self.program.numbers[value]]

    def _rewrite(self, op: Operation) -> None:
        match op:
            case MemoryOp() | OfOp():
                self._place_memory(op, self._split(op.result))
            case ApplyOp():
                self._apply(op, self.cuts[op], self._split(op.result))
            case AssignOp():
                self._assign(op, self.cuts[op])
            case ForwardOp():
                self._note_split(op.tensor, self._split(op.tensor))
                op.operands = [self.versions.kept(op.tensor)]
            case YieldOp():
                self._yield(op)
            case TensorOp() if not isinstance(op, FREE):
                way = self.cuts[op].way
                op.operands = self.versions.operands(op.operands, way.needs)
                if isinstance(op, ScanOp):
                    self._scan(op, self.cuts[op])
                for result, gives in zip(op.results, way.gives, strict=True):
                    refine_type(result, self.versions.local_type(result, gives))
                    self.versions.define(result, result, gives, self._split(result), "add")
            case _:
                pass

    def _place_memory(self, op: MemoryOp | OfOp, split: Split) -> None:
        if isinstance(op, ValueOp):
            self._note_split(op.source, split)
        if isinstance(op, OfOp):
            op.operands = [self.versions.kept(op.source)]
        refine_type(op.result, self.versions.local_type(op.result, split))
        self._note(op, op.result, split)
        self.versions.add(op.result, split, op.result)
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
        if split < 0 or any(own.mesh == self.program.mesh for own in known.splits):
            return
        size = self.versions.types[value].shape.data.memory_sizes[split]
        op.properties["placement"] = PlacementAttr(
            known.with_split(SplitAxis(split, size, self.program.mesh))
        )

    def _apply(self, op: ApplyOp, cut: Cut, split: Split) -> None:
        operands = self.versions.operands(op.args, cut.way.needs)
        if cut.way.along or operands != [*op.args]:
            self.divider.divide(op, cut, operands)
        (gives,) = cut.way.gives
        refine_type(op.result, self.versions.local_type(op.result, gives))
        self.versions.define(op.result, op.result, gives, split, op.accum_name or "add")

    def _assign(self, op: AssignOp, cut: Cut) -> None:
        assert op.value_map is not None
        assert op.space is not None
        needs = cut.way.needs
        op.operands = [op.target, *self.versions.operands((op.value, *op.ids), needs)]
        (divided,) = cut.divided
        if divided is not None:
            maps = moved_maps(divided, [op.value_map.data, *op.maps_of_ids], needs)
            op.properties["value_map"] = MapAttr(maps[0])
            op.properties["space"] = SpaceAttr(local_space(op.space.data, divided))
            if op.ids:
                op.properties["id_maps"] = ArrayAttr([MapAttr(own) for own in maps[1:]])

    def _scan(self, op: ScanOp, cut: Cut) -> None:
        """Rewrites the body of a scan that is divided."""
        if isinstance(cut, ScanCut):
            Rewriting(cut.body, cut.placements, self.taken | {op.index}, self.noted).run()

    def _yield(self, op: YieldOp) -> None:
        """Carries are as the next iteration needs them, stacked values as they are."""
        scan = op.parent_op()
        assert isinstance(scan, ScanOp)
        needs = [self._split(argument) for argument in scan.carry_arguments]
        needs += [self._split(value) for value, _ in op.stacked]
        op.operands = [self.versions.of(v, need) for v, need in zip(op.operands, needs, strict=True)]

    def _add_leaf(self, op: TensorOp) -> SSAValue:
        block = self.program.block
        first, parent = block.first_op, block.parent_op()
        assert first is not None
        assert parent is not None
        op.location = parent.location
        block.insert_op_before(op, first)
        return op.result
