"""`nontemporal-stores`: data that will have left all caches before its next use is stored past them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import FuncOp, LoadOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import fills_lines
from ocannl.passes.analysis.costs.footprints import AccessFootprint
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import (
    Opaque,
    Step,
    all_steps,
    body_of,
    functions,
    nests_of,
    nodes,
    touches,
    variable_sizes,
)
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions


@dataclass(frozen=True)
class StepFootprint:
    """The bytes of each node that a step touches, and the nodes that it loads from."""

    bytes: Mapping[SSAValue, int]
    loaded: set[SSAValue]

    @staticmethod
    def of(step: Step, whole: Mapping[SSAValue, int], near: int) -> StepFootprint:
        """The footprint of a step. `whole` are the bytes of the nodes, which count in full up to `near`
        bytes. A loop or a collective touches all of its nodes.
        """
        if isinstance(step, Opaque):
            return StepFootprint({node: whole[node] for node in step.nodes if node in whole}, set(step.nodes))
        touched: dict[SSAValue, int] = {}
        loaded: set[SSAValue] = set()
        for nest in nests_of(step):
            sizes: Mapping[str, int] = {}
            for op, node in touches(nest):
                size = whole.get(node)
                if size is None:
                    continue
                if size > near:
                    sizes = sizes or scope_sizes(nest) | variable_sizes(body_of(nest))
                    size = min(size, AccessFootprint.of(op, set()).size(sizes))
                touched[node] = max(size, touched.get(node, 0))
                if isinstance(op, LoadOp):
                    loaded.add(node)
        return StepFootprint(touched, loaded)


def footprint(touched: Iterable[StepFootprint], most: float = math.inf) -> int:
    """The bytes that several steps touch together; counting stops beyond `most`."""
    largest: dict[SSAValue, int] = {}
    total = 0
    for own in touched:
        for node, size in own.bytes.items():
            known = largest.get(node, 0)
            if size > known:
                largest[node] = size
                total += size - known
        if total > most:
            break
    return total


class Bypass:
    """Chooses the nontemporal stores of one function by reuse distances."""

    def __init__(self, func: FuncOp, whole: Mapping[SSAValue, int], target: TargetDescription) -> None:
        self.near = target.l2_bytes
        self.room = target.lasting_bytes
        self.steps = all_steps(func)
        self.touched = [StepFootprint.of(step, whole, self.near) for step in self.steps]
        self.positions: dict[SSAValue, list[int]] = {}
        for number, own in enumerate(self.touched):
            for node in own.bytes:
                self.positions.setdefault(node, []).append(number)
        self.total = footprint(self.touched)

    def run(self) -> None:
        for number, step in enumerate(self.steps):
            far = {node for node in self.candidates(number) if self.is_left(number, node)}
            for nest in nests_of(step) if far and not isinstance(step, Opaque) else ():
                schedule = nest.schedule.data if nest.schedule is not None else Schedule()
                for op in nest.body.block.ops:
                    if isinstance(op, StoreOp) and op.node in far and fills_lines(op, schedule):
                        op.properties["nontemporal"] = UnitAttr()

    def candidates(self, number: int) -> list[SSAValue]:
        """The large nodes that a step stores to and does not load."""
        own = self.touched[number]
        return [node for node, size in own.bytes.items() if size > self.near and node not in own.loaded]

    def is_left(self, number: int, node: SSAValue) -> bool:
        """Whether the reuse distance of a node after a step is larger than the caches. After the last step,
        the first one may run again.
        """
        positions = self.positions[node]
        other = positions[bisect_right(positions, number) % len(positions)]
        if other == number:
            return self.total > self.room
        between = self.between(number, other)
        with_both = [self.touched[number], *between, self.touched[other]]
        # Half of the step passes after the store, on average, and half of the other one before the access.
        return footprint(between, 2 * self.room) + footprint(with_both, 2 * self.room) > 2 * self.room

    def between(self, number: int, other: int) -> list[StepFootprint]:
        """The steps after one step and before another, in the next run if that does not come later."""
        if number < other:
            return self.touched[number + 1 : other]
        return [*self.touched[number + 1 :], *self.touched[:other]]


@dataclass(frozen=True)
class NontemporalStoresPass(TargetOptions, ModulePass):
    """Marks stores of whole cache lines as nontemporal (streaming stores) if their reuse distance is larger
    than all caches.

    The processor then writes a line without reading it from memory first. The reuse distance of a stored node
    is the number of bytes touched until the next step that touches it, in the next run if need be (Mattson et
    al., "Evaluation Techniques for Storage Hierarchies", 1970).
    """

    name = "nontemporal-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.target
        for func in functions(op):
            whole: dict[SSAValue, int] = {
                node.result: byte_size(node) for node in nodes(func) if node.mode.data != "virtual"
            }
            is_any_far = max(whole.values(), default=0) > target.l2_bytes
            if is_any_far and sum(whole.values()) > target.lasting_bytes:
                Bypass(func, whole, target).run()
