"""Who reads what a nest leaves in memory, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import Map
from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import (
    Opaque,
    covering_axes,
    names_in,
    node_mode,
    operations,
    points,
    ungrouped_steps,
)
from ocannl.passes.analysis.patterns.one_hot import chosen, placing

# So many numbers at least, each converted from an integer for so many points at most, are converted before:
# their own nest has vectors of numbers where its reader has one number for a vector.
CONVERTED, FEW_POINTS = 256, 64


@dataclass(slots=True)
class Version:
    """The content that a nest leaves in a node: the sites that read it, and whether it has to be in memory
    anyway.

    `copies` are nests that only copy it to another node. `repeated` tells that a reduction reads it more
    often than it is computed, and `in_batch` that products within a batch are made of it, as attention's are.
    """

    points: int
    sites: set[tuple[NestOp, Map]] = field(default_factory=set[tuple[NestOp, Map]])
    copies: list[Version] = field(default_factory=list["Version"])
    kept: bool = True
    repeated: bool = False
    in_batch: bool = False

    @property
    def readers(self) -> int:
        """The number of reading sites; those of a copy count for it."""
        return len(self.sites) + sum(copy.readers for copy in self.copies)

    @property
    def is_stored(self) -> bool:
        """Whether the content, or a copy, is in memory whatever is decided for one reader."""
        return self.kept or self.repeated or any(copy.is_stored for copy in self.copies)


@dataclass(frozen=True, slots=True)
class LoadSite:
    """A load: the operation before which its value can be computed, and how often that runs."""

    load: LoadOp
    anchor: Operation
    evaluations: int
    in_reduction: bool
    is_scalar: bool
    """Whether the value is the same along the innermost variable around the load."""
    is_searched: bool
    """Whether cells search for what is loaded, each of which one of them finds."""

    @staticmethod
    def of(load: LoadOp, nest: NestOp) -> LoadSite:
        """The site of a load; an invariant value is computed before the reductions around it."""
        names = names_in(load.indices.data)
        anchor: Operation = load
        evaluations, in_reduction = 1, False
        inner: Operation = load
        parent = load.parent_op()
        innermost = (parent if isinstance(parent, ReduceOp) else nest).space.names[-1:]
        while isinstance(parent, ReduceOp):
            if in_reduction or not names.isdisjoint(parent.space.names):
                if not in_reduction:
                    anchor = inner
                in_reduction = True
                # What a reduction searches for, it reads once.
                found = {one_hot.variable for one_hot in chosen(parent)}
                evaluations *= points(tuple(d for d in parent.space.data if d[0] not in found))
            inner, parent = parent, parent.parent_op()
        if not in_reduction:
            anchor = inner
        is_scalar = names.isdisjoint(innermost)
        own, searching = nest.space.data, set[str]()
        if isinstance(inner, ReduceOp):
            searching = {one_hot.variable for one_hot in placing(inner, dict(own))}
        evaluations *= points(tuple(d for d in own if d[0] not in searching))
        return LoadSite(load, anchor, evaluations, in_reduction, is_scalar, bool(searching))

    def repeats(self, points: int) -> bool:
        """Whether a reduction would compute the value more than `points` times."""
        return self.in_reduction and self.evaluations > points

    def converts_for_few(self, points: int) -> bool:
        """Whether a value of so many points, if it is converted from integers, is converted in vectors before
        rather than alone at each of these.
        """
        return self.is_scalar and points >= CONVERTED and points < self.evaluations <= FEW_POINTS * points


def versions_of(func: FuncOp) -> dict[tuple[NestOp, SSAValue], Version]:
    """The content that each nest leaves in each node that it stores to."""
    versions: dict[tuple[NestOp, SSAValue], Version] = {}
    current: dict[SSAValue, Version] = {}
    for nest in ungrouped_steps(func):
        if isinstance(nest, Opaque):
            # What a loop or a collective is given stays in memory, whoever reads it later.
            for node in nest.nodes:
                current.pop(node, None)
            continue
        ops, size = operations(nest.body.block), points(nest.space.data)
        copied: Version | None = None
        for op in ops:
            if isinstance(op, LoadOp) and op.node in current:
                version = current[op.node]
                if is_local_copy(ops) and size == version.points:
                    copied = version
                else:
                    version.sites.add((nest, op.indices.data))
                    version.repeated = version.repeated or LoadSite.of(op, nest).repeats(version.points)
            elif isinstance(op, StoreOp):
                if op.node in current and covering_axes(op, nest.space.data) is not None:
                    current[op.node].kept = False
                current[op.node] = versions[nest, op.node] = Version(size)
                if copied is not None:
                    copied.copies.append(current[op.node])
    for node, version in current.items():
        version.kept = node_mode(node) != "local"
    return versions


def mark_batches(versions: dict[tuple[NestOp, SSAValue], Version]) -> None:
    """Finds what products within a batch sum up, itself or as what nests make of it, point by point."""
    made: dict[NestOp, list[Version]] = {}
    for (nest, _), version in versions.items():
        made.setdefault(nest, []).append(version)
    for (_, node), version in reversed(versions.items()):
        version.in_batch = any(copy.in_batch for copy in version.copies) or any(
            any(later.in_batch for later in made.get(nest, ()) if later.points == version.points)
            or any(
                is_in_batch(op)
                for op in operations(nest.body.block)
                if isinstance(op, LoadOp) and op.node == node
            )
            for nest, _ in version.sites
        )


def is_in_batch(load: LoadOp) -> bool:
    """Whether products with an array are summed up that has axes of the result in common with what is loaded,
    and axes of its own, as the values have for which attention has weights.
    """
    reduction, own = load.parent_op(), names_in(load.indices.data)
    if not isinstance(reduction, ReduceOp):
        return False
    summed = set(reduction.space.names)
    loads = [op for op in operations(reduction.body.block) if isinstance(op, LoadOp)]
    others = [names_in(op.indices.data) for op in loads]
    return any((own & other) - summed and own & other & summed and other - own for other in others)


def is_local_copy(ops: Sequence[Operation]) -> bool:
    """Whether a nest does nothing but load a value and store it to a local node."""
    return len(ops) == 2 and isinstance(ops[1], StoreOp) and node_mode(ops[1].node) == "local"
