"""Copies of nests for one block of rows and keys, inside a group over blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, MapAttr, Space, SpaceAttr
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import ZERO, Indexed, declaration, operations, variable_sizes
from ocannl.passes.loops.online_softmax.score_nests import ScoreNest, ScoreNests, variable
from ocannl.passes.rewrites.indices import Copier


@dataclass(frozen=True)
class BlockSizes:
    """How many rows and keys run together."""

    rows: int
    keys: int


@dataclass
class BlockSpace:
    """The space of a group over blocks of rows and keys of scores, and the place of each axis in it; which
    blocks count, if not all do.
    """

    nests: ScoreNests
    sizes: BlockSizes
    space: Space
    others: dict[int, Linear]
    row_start: Linear
    key_start: Linear
    visible: Bound | None = None

    @staticmethod
    def of(func: FuncOp, nests: ScoreNests, sizes: BlockSizes) -> BlockSpace:
        """The variables of the batch are outside; blocks of rows are inside, so that those share keys."""
        used = set(func.ranges)
        for member in nests.members:
            used |= member.sizes.keys()
        names, space, others = Names(used), list[tuple[str, int]](), dict[int, Linear]()
        for axis, digits in nests.others.items():
            step, others[axis] = memref_shape(nests.wide[0])[axis], ZERO
            for name, size in digits:
                step //= size
                fresh = names.fresh(name)
                space.append((fresh, size))
                others[axis] += Linear.var(fresh) * step
        starts: list[Linear] = []
        for stem, axis, size in (("key", nests.keys, sizes.keys), ("row", nests.rows, sizes.rows)):
            fresh = names.fresh(f"{stem}_block")
            space.append((fresh, nests.shape[axis] // size))
            starts.append(Linear.var(fresh) * size)
        return BlockSpace(nests, sizes, tuple(space), others, starts[1], starts[0])

    def values(self, member: ScoreNest) -> dict[str, Linear]:
        """The variables of a nest in terms of those of the group, which fixes those along other axes."""
        key, row = variable(member.at[self.nests.keys]), variable(member.at[self.nests.rows])
        values = {key: self.key_start + Linear.var(key), row: self.row_start + Linear.var(row)}
        for axis, digits in self.nests.others.items():
            index = member.at[axis]
            own = sorted(index.terms, key=lambda term: -term[1])
            if index.variable is not None:
                values[index.variable] = self.others[axis]
            else:
                places = sorted(self.others[axis].terms, key=lambda term: -term[1])
                pairs = zip(own, places, strict=True) if len(own) == len(places) else ()
                values |= {name: Linear.var(place) for (name, _), (place, _) in pairs}
            assert index.names == () or index.names[0] in values, digits
        return values

    def enter(self, nest: NestOp, member: ScoreNest, inside: Mapping[SSAValue, NodeOp]) -> None:
        """Restricts a nest that runs as a member does to one block, where nodes `inside` the group stand for
        scores.
        """
        values = self.values(member)
        key, row = variable(member.at[self.nests.keys]), variable(member.at[self.nests.rows])
        blocks = {key: self.sizes.keys, row: self.sizes.rows}
        for op in (nest, *operations(nest.body.block)):
            if isinstance(op, NestOp | ReduceOp):
                kept = [
                    (n, blocks.get(n, size)) for n, size in op.space.data if n in blocks or n not in values
                ]
                op.properties["space"] = SpaceAttr(tuple(kept))
            elif isinstance(op, LoadOp | StoreOp) and op.node in inside:
                op.properties["indices"] = MapAttr((Linear.var(row), Linear.var(key)))
                node = inside[op.node].result
                op.operands[0 if isinstance(op, LoadOp) else 1] = node
            elif isinstance(op, Indexed):
                op.properties["indices"] = MapAttr(tuple(i.substitute(values) for i in op.indices.data))


@dataclass
class CopiedNest:
    """A copy of a nest, and what stands in it for the values of the original."""

    nest: NestOp
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @staticmethod
    def of(nest: NestOp, func: FuncOp) -> CopiedNest:
        names = Names(set(func.ranges) | set(variable_sizes(nest)))
        copier = Copier(names, {})
        body = Region(Block([copier.copy(op) for op in nest.body.block.ops]))
        copied = NestOp(nest.label.data, nest.space.data, body)
        copied.location = nest.location
        return CopiedNest(copied, copier.values)

    def made_by(self, op: Operation) -> Operation:
        """The copy of an operation."""
        made = self.values[op.results[0]].owner
        assert isinstance(made, Operation)
        return made


def node_inside(node: SSAValue, shape: Iterable[int], label: str) -> NodeOp:
    """The declaration of a node in a group that stands for a larger one."""
    old = declaration(node)
    made = NodeOp(label, "local", old.why.data, MemRefType(element_type(node), list(shape)))
    made.result.name_hint = node.name_hint
    made.location = old.location
    return made
