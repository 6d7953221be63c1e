"""Nests after a group that make results of what its blocks have added up, in the kernel of the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear, Map
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.loops import FuncOp, GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import arena_ranges, disjoint
from ocannl.passes.analysis.nests import Indexed, all_steps, used_nodes
from ocannl.passes.rewrites.indices import substitute_indices


@dataclass(frozen=True)
class Total:
    """A sum of a block for a node: `array[place]` is its cell `at`; `bounds` say who stores it."""

    array: SSAValue
    place: Map
    at: Map
    bounds: tuple[Bound, ...]


@dataclass
class Epilogues:
    """The end of a kernel: it stores totals, or what some nests after the group make of them.

    Attributes:
        totals: by nodes.
        read: the nodes that the kernel reads.
        taken: the nests that are part of the kernel.
        known: what they store, by nodes and cells.
    """

    group: GroupOp
    totals: Mapping[SSAValue, Total]
    read: list[SSAValue]
    taken: list[NestOp] = field(default_factory=list[NestOp])
    ops: list[Operation] = field(default_factory=list[Operation])
    known: dict[tuple[SSAValue, Map], SSAValue] = field(default_factory=dict[tuple[SSAValue, Map], SSAValue])

    def build(self) -> list[Operation]:
        func = self.group.parent_op()
        following = (
            all_steps(func)[all_steps(func).index(self.group) + 1 :] if isinstance(func, FuncOp) else []
        )
        while following and isinstance(nest := following[0], NestOp) and self.take(nest):
            following = following[1:]
        needed = {node for step in following for node in used_nodes(step)}
        for node, total in self.totals.items():
            if node in needed or not self.taken:
                load = LoadOp(total.array, total.place)
                self.ops += [load, *guarded(total, StoreOp(load.result, node, total.at))]
        return self.ops

    def take(self, nest: NestOp) -> bool:
        """Makes a nest part of the kernel, if it does something point by point with a total."""
        ops = list(nest.body.block.ops)
        loads = [op for op in ops if isinstance(op, LoadOp)]
        stores = [op for op in ops if isinstance(op, StoreOp)]
        if nest.clashing or any(op.regions for op in ops) or any(op.positions for op in (*loads, *stores)):
            return False
        own = [op for op in loads if op.node in self.totals]
        first = max(own, key=lambda op: len(set(op.indices.data)), default=None)
        if first is None or not self.is_apart([op.node for op in stores]):
            return False
        total = self.totals[first.node]
        values = places(nest, first, total)
        if values is None or not all(self.is_known(op, values) for op in loads):
            return False
        self.add(ops, values, total)
        self.read += [op.node for op in loads if op.node not in self.totals]
        self.taken.append(nest)
        return True

    def is_apart(self, stored: Sequence[SSAValue]) -> bool:
        """Whether nodes are none that the kernel reads or has stored, and share no memory with those: other
        blocks may not have read it yet.
        """
        touched = {*self.read, *(node for node, _ in self.known)}
        nodes = list(dict.fromkeys([*self.read, *stored]))
        return touched.isdisjoint(stored) and set(stored) <= disjoint(nodes, arena_ranges(nodes))

    def is_known(self, load: LoadOp, values: Mapping[str, Linear]) -> bool:
        """Whether a load is of a total, of what was stored before, or of what the kernel does not store."""
        at = tuple(index.substitute(values) for index in load.indices.data)
        if load.node in self.totals:
            return self.totals[load.node].at == at
        stored = {node for node, _ in self.known}
        return load.node not in stored or (load.node, at) in self.known

    def add(self, ops: Sequence[Operation], values: Mapping[str, Linear], total: Total) -> None:
        """Adds the operations of a nest."""
        copies: dict[SSAValue, SSAValue] = {}
        for op in ops:
            made = op.clone(copies)
            if isinstance(made, Indexed):
                substitute_indices([made], values)
            if isinstance(made, StoreOp):
                self.known[made.node, made.indices.data] = made.value
                self.ops += guarded(total, made)
                continue
            if isinstance(made, LoadOp) and made.node in self.totals:
                own = self.totals[made.node]
                made = LoadOp(own.array, own.place)
            elif isinstance(made, LoadOp) and (made.node, made.indices.data) in self.known:
                copies[op.results[0]] = self.known[made.node, made.indices.data]
                continue
            copies |= dict(zip(op.results, made.results, strict=True))
            self.ops.append(made)
            if isinstance(made, arith.DivfOp) and isinstance(made.rhs.owner, LoadOp):
                self.ops[-1:] = divided = by_reciprocal(made)
                copies[op.results[0]] = divided[-1].results[0]


def by_reciprocal(op: arith.DivfOp) -> list[Operation]:
    """A division by what a row has, of which there are few, as a product."""
    type = op.result.type
    assert isinstance(type, AnyFloat)
    one = arith.ConstantOp(FloatAttr(1.0, type))
    reciprocal = arith.DivfOp(one.result, op.rhs)
    return [one, reciprocal, arith.MulfOp(op.lhs, reciprocal.result)]


def guarded(total: Total, store: StoreOp) -> list[Operation]:
    return [WhereOp(total.bounds, Region(Block([store])))] if total.bounds else [store]


def places(nest: NestOp, load: LoadOp, total: Total) -> dict[str, Linear] | None:
    """The variables of a nest by those of the kernel, if it loads each cell of a total once."""
    found: dict[str, Linear] = {}
    sizes = dict(nest.space.data)
    for index, size, at in zip(load.indices.data, memref_shape(load.node), total.at, strict=True):
        if index.is_constant and index == at:
            continue
        name = index.variable
        if name is None or name in found or sizes.get(name) != size:
            return None
        found[name] = at
    return found if found.keys() == sizes.keys() else None
