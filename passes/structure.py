"""What a nest or a group is apart from names, so that work on equal ones is done once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.scopes import scope_sizes

Structure: TypeAlias = Hashable

# What people read: nothing else depends on it.
NAMES = {"label", "why"}


def structure(step: Operation) -> Structure:
    """Equal for nests or groups that differ only in labels, names of values, and the nodes, of equal types,
    that they use: what follows from one of them alone follows from the others.
    """
    return structure_and_nodes(step)[0]


def structure_and_nodes(step: Operation) -> tuple[Structure, list[SSAValue]]:
    """The structure, and the nodes from outside that the step uses, in the order in which it has them."""
    reader = _Reader()
    found = tuple(scope_sizes(step).items()), reader.read(step)
    block = step.regions[0].block
    nodes = [v for v in reader.numbers if isinstance(v.owner, NodeOp) and v.owner.parent is not block]
    return found, nodes


class _Reader:
    """Numbers values in the order in which they are met."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}

    def read(self, op: Operation) -> Structure:
        return (
            op.name,
            tuple([self.number(operand) for operand in op.operands]),
            tuple([part for name, part in op.properties.items() if name not in NAMES]),
            tuple([self.number(result) for result in op.results]),
            tuple([self.read(inner) for region in op.regions for inner in region.block.ops]),
        )

    def number(self, value: SSAValue) -> Structure:
        """A value met before is told by its number, a new one by its type."""
        number = self.numbers.get(value)
        if number is not None:
            return number
        self.numbers[value] = len(self.numbers)
        return value.type
