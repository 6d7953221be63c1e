"""Operations of one rank: with its part of the space, and what is not real left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Row, Shape, closed_row
from ocannl.dialects.texpr import ApplyOp, EmbedOp, RangeOp, TensorOp
from ocannl.dialects.texpr.parts import Part
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.passes.analysis.infer_placements.problem import Split
from ocannl.passes.texpr.partition.variables import Divided
from ocannl.passes.texpr.partition.ways import Cut

SCALAR = Shape(Row(), Row(), Row())


@dataclass(frozen=True)
class Divider:
    """Divides operations; `add_leaf` adds an operation without operands before all others."""

    add_leaf: Callable[[TensorOp], SSAValue]
    places: dict[tuple[int, int], tuple[SSAValue, SSAValue]] = field(
        default_factory=dict[tuple[int, int], tuple[SSAValue, SSAValue]]
    )

    def divide(self, op: ApplyOp, cut: Cut, operands: Sequence[SSAValue]) -> None:
        """Makes an operation that of one rank, which reads versions of its operands."""
        needs, at, parts = cut.way.needs, 0, list[Part]()
        for part, divided in zip(op.parts, cut.divided, strict=True):
            end = at + len(part.combination.operands)
            parts.append(self._part(op, part, divided, operands[at:end], needs[at:end], cut.way.gives[0]))
            at = end
        op.project(parts, op.accum_name)

    def _part(
        self,
        op: ApplyOp,
        part: Part,
        divided: Divided | None,
        operands: Sequence[SSAValue],
        needs: Sequence[Split],
        gives: Split,
    ) -> Part:
        own = part.combination
        if divided is None:
            return Part(Combination.of(own.term, operands, own.maps), part.result_map, part.space)
        term, maps = own.term, moved_maps(divided, own.maps, needs)
        is_reduced = not any(index.coefficient(divided.name) for index in part.result_map)
        if is_reduced and not divided.is_even:
            assert op.accum_name is not None
            neutral = Const(neutral_number(op.accum_name, tensor_type(op.result).element))
            real = App("lt", (Arg(len(maps)), Arg(len(maps) + 1)))
            term = App("where", (real, term, neutral))
            operands = [*operands, *self._places(divided)]
            maps = [*maps, (Linear.var(divided.name),), ()]
        combination = Combination.of(term, operands, maps)
        return Part(combination, divided.moved(part.result_map, gives), local_space(part.space, divided))

    def _places(self, divided: Divided) -> tuple[SSAValue, SSAValue]:
        """The positions in a rank's part, and how many of them are real."""
        key = divided.size, divided.local
        if key not in self.places:
            row = Shape(Row(), Row(), closed_row(divided.local))
            count = Linear((), divided.size) + divided.start * -1
            positions = self.add_leaf(RangeOp(TensorType.of(row, i32)))
            self.places[key] = positions, self.add_leaf(EmbedOp(count, TensorType.of(SCALAR, i32)))
        return self.places[key]


def moved_maps(divided: Divided, maps: Sequence[Map], splits: Sequence[Split]) -> list[Map]:
    """The maps in terms of a rank's own values, by how each operand is split."""
    return [divided.moved(indices, split) for indices, split in zip(maps, splits, strict=True)]


def local_space(space: Space, divided: Divided) -> Space:
    return tuple((name, divided.local if name == divided.name else size) for name, size in space)
