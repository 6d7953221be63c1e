"""Substitution of iteration variables, in place and in copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.loops import NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import ZERO, Indexed, operations, substituted


def substitute_indices(ops: Iterable[Operation], values: Mapping[str, Linear]) -> None:
    """Replaces iteration variables in the index maps of `ops`."""
    for op in ops:
        if isinstance(op, Indexed):
            op.properties["indices"] = substituted(op.indices, values)


def drop_unit_variables(nest: NestOp) -> None:
    """Removes variables of size 1, whose value is 0; a schedule keeps the variables that it may name."""
    if nest.schedule is not None:
        return
    body = operations(nest.body.block)
    values: dict[str, Linear] = {}
    for op in (nest, *body):
        if isinstance(op, NestOp | ReduceOp):
            units = {name: ZERO for name, size in op.space.data if size == 1}
            if units:
                op.properties["space"] = SpaceAttr(tuple(d for d in op.space.data if d[0] not in units))
                values |= units
    if values:
        substitute_indices(body, values)


def rename(ops: Iterable[Operation], names: Names, indices: dict[str, Linear]) -> None:
    """Prepares operations in place for another nest: other index expressions, fresh reduction variables."""
    for op in ops:
        if isinstance(op, Indexed):
            op.properties["indices"] = substituted(op.indices, indices)
        elif isinstance(op, ReduceOp):
            op.properties["space"] = names.fresh_space(op.space.data, indices)
            rename(op.body.block.ops, names, indices)


@dataclass
class Copier:
    """Copies operations into another nest, with other operands and index expressions."""

    names: Names
    indices: dict[str, Linear]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def copy(self, op: Operation) -> Operation:
        properties: dict[str, Attribute] = dict(op.properties)
        regions: list[Region] = []
        if isinstance(op, Indexed):
            properties["indices"] = substituted(op.indices, self.indices)
        elif isinstance(op, ReduceOp):
            properties["space"] = self.names.fresh_space(op.space.data, self.indices)
            regions.append(Region(Block(self.copy(inner) for inner in op.body.block.ops)))
        copied = type(op).create(
            operands=[self.values.get(operand, operand) for operand in op.operands],
            result_types=op.result_types,
            properties=properties,
            attributes=op.attributes,
            location=op.location,
            regions=regions,
        )
        for old, new in zip(op.results, copied.results, strict=True):
            new.name_hint = old.name_hint
            self.values[old] = new
        return copied
