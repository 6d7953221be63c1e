"""Packed copies of operands that outlive a run of the nest which reads them: those that are kept between runs
of a routine, and those that `hoist-from-loops` makes before a loop.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from ocannl.dialects.loops import FuncOp, LoadOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.loop_invariants import Iterations, invariant_nodes
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import declaration, names_in
from ocannl.passes.analysis.schedules.schedule_candidates import loads_of
from ocannl.passes.analysis.targets.target import TargetDescription

# The most of the cycles without such copies that a nest with them may take: copies that are kept have to be
# checked, and all of them fill memory.
KEEPING_PAYS, HOISTING_PAYS = 0.8, 0.98


@dataclass(frozen=True)
class LastingCopies:
    """The nodes of a function of which copies may outlast a nest.

    Attributes:
        unwritten: those of which copies may be kept between runs.
        invariant: those that the loop around the function leaves as they are.
        loop: that loop.
    """

    target: TargetDescription
    unwritten: frozenset[SSAValue] = frozenset()
    invariant: frozenset[SSAValue] = frozenset()
    loop: Iterations | None = None

    @staticmethod
    def of(
        func: FuncOp, target: TargetDescription, unwritten: frozenset[SSAValue], loop: Iterations | None
    ) -> LastingCopies:
        invariant = frozenset[SSAValue]() if loop is None else invariant_nodes(func)
        return LastingCopies(target, unwritten, invariant, loop)

    @property
    def pays(self) -> float:
        """The most of the cycles without such copies that a nest with them may take."""
        return HOISTING_PAYS if self.loop is not None else KEEPING_PAYS

    def parts(self, nest: NestOp) -> tuple[float, ...]:
        """The part of the cycles of a copy of each load that one run of a nest pays; empty where
        no copy outlasts it.
        """
        if not (self.unwritten or self.invariant) or not isinstance(nest.parent_op(), FuncOp):
            return ()
        found = tuple(self.part(nest, load) for load in loads_of(nest))
        return found if any(part < 1 for part in found) else ()

    def part(self, nest: NestOp, load: LoadOp) -> float:
        if not self.lasts(load) or not is_shared(nest, load):
            return 1.0
        return 0.0 if self.loop is None else 1 / max(1, self.loop.count)

    def lasts(self, load: LoadOp) -> bool:
        """Whether a copy of what is loaded can outlast a nest. Kept ones are read from a cache."""
        if self.loop is not None:
            return load.node in self.invariant and self.loop.index not in names_in(load.indices.data)
        return load.node in self.unwritten and byte_size(declaration(load.node)) <= self.target.l2_bytes


def is_shared(nest: NestOp, load: LoadOp) -> bool:
    """Whether several points of a nest read the same element."""
    names = names_in(load.indices.data)
    return math.prod(size for name, size in nest.space.data if name not in names) > 1
