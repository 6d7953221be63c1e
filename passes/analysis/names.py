"""Fresh names of variables and labels of nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from ocannl.dialects.index.linear import Linear, Space, SpaceAttr
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import nodes, operations, steps

# Between the first and the last part of the label of nests that were fused.
JOINED = " .. "


def fresh_label(label: str, taken: Collection[str]) -> str:
    """The label, with a number appended if it is taken."""
    candidate, count = label, 1
    while candidate in taken:
        candidate, count = f"{label}.{count}", count + 1
    return candidate


@dataclass
class Names:
    """Names of variables, or labels of nodes, that are in use; a fresh one is the given name, numbered where
    it is taken.
    """

    used: set[str]
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    """The last number that was given to each name, whose lower ones are all in use."""

    @staticmethod
    def of(func: FuncOp, nest: NestOp) -> Names:
        used = set(func.ranges) | set(nest.space.names) | set(scope_sizes(nest))
        for op in operations(nest.body.block):
            if isinstance(op, ReduceOp):
                used.update(op.space.names)
        return Names(used)

    def fresh(self, name: str) -> str:
        candidate = name
        if name in self.used:
            stem = name.rstrip("0123456789") or name
            number = self.numbers.get(stem, 0)
            while candidate in self.used:
                number += 1
                candidate = f"{stem}{number}"
            self.numbers[stem] = number
        self.used.add(candidate)
        return candidate

    def fresh_space(self, space: Space, indices: dict[str, Linear]) -> SpaceAttr:
        """The space under fresh names; `indices` then maps the old names to them."""
        fresh = tuple((self.fresh(name), size) for name, size in space)
        indices |= {old: Linear.var(new) for (old, _), (new, _) in zip(space, fresh, strict=True)}
        return SpaceAttr(fresh)


def joined_label(first: NestOp, last: NestOp) -> str:
    """The label of a fusion of nests: the first part of the first label and the last part of the last one."""
    ends = (first.label.data.split(JOINED)[0], last.label.data.split(JOINED)[-1])
    return JOINED.join(dict.fromkeys(ends))


def labels_of(func: FuncOp) -> Names:
    """The labels of all nodes of a function, those in its groups included."""
    inside = (nodes(step) for step in steps(func) if isinstance(step, GroupOp))
    return Names({node.label.data for found in (nodes(func), *inside) for node in found})
