"""The memory of a planned routine on one device, by what it is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from ocannl.dialects import texpr
from ocannl.dialects.assign.node import KEPT, OWN_MEMORY
from ocannl.dialects.loops import CollectiveOp, FuncOp
from ocannl.lowering.expression_nodes import OF_COLLECTIVES
from ocannl.passes.analysis.dataflow.liveness import lifetimes
from ocannl.passes.analysis.dataflow.memory import byte_size, memory_report
from ocannl.passes.analysis.nests import all_steps, declaration, node_mode
from ocannl.program.module.extract import ExtractedRoutine
from ocannl.program.values import operation_of


@dataclass(frozen=True)
class PlannedMemory:
    """The bytes that a program takes on one device, as its memory plan has them.

    Attributes:
        parameters: those of parameters, its part of them.
        gradients: those of gradients that are kept between steps.
        moments: those of an optimizer's moments.
        data: those of data.
        others: those of all other memory that is kept between runs: counters, statistics, values.
        activations: what is live inside of a run, at most: values that gradients need, and those on the way.
        exchanged: what collectives have sent or received then, gathered parameters among it.
    """

    parameters: int
    gradients: int
    moments: int
    data: int
    others: int
    activations: int
    exchanged: int

    @property
    def bytes(self) -> int:
        """All of it."""
        kept = self.parameters + self.gradients + self.moments + self.data + self.others
        return kept + self.activations + self.exchanged


def memory_of(func: FuncOp, program: ExtractedRoutine) -> PlannedMemory:
    """The memory of a routine after `plan-memory`."""
    sizes: dict[str, int] = dict.fromkeys(("parameters", "gradients", "moments", "data", "others"), 0)
    report = memory_report(func)
    for node in report:
        if node.mode in (*OWN_MEMORY, KEPT):
            sizes[_kind(node.label, program)] += node.bytes
    arena = max((node.offset + node.bytes for node in report if node.offset is not None), default=0)
    exchanged = min(arena, _exchanged(func))
    return PlannedMemory(**sizes, activations=arena - exchanged, exchanged=exchanged)


def _kind(label: str, program: ExtractedRoutine) -> str:
    value = program.values.get(label)
    if value is None:
        return "gradients" if label.endswith(".grad") else "others"
    match operation_of(value):
        case texpr.ParamOp():
            return "parameters"
        case texpr.DataOp():
            return "data"
        case texpr.NodeOp() if value.kind == "moment":
            return "moments"
        case _:
            return "others"


def _exchanged(func: FuncOp) -> int:
    """The bytes of what collectives send and receive, when most local memory is live."""
    used = {node for step in all_steps(func) if isinstance(step, CollectiveOp) for node in step.nodes}
    changes: Counter[int] = Counter()
    exchanged: Counter[int] = Counter()
    for node, lifetime in lifetimes(func).items():
        if node_mode(node) != "local":
            continue
        is_exchanged = node in used or declaration(node).why.data == OF_COLLECTIVES
        for counted in (changes, exchanged) if is_exchanged else (changes,):
            counted[lifetime.first] += byte_size(declaration(node))
            counted[lifetime.last + 1] -= byte_size(declaration(node))
    steps = range(len(all_steps(func)))
    live = [*accumulate(changes[at] for at in steps)]
    peak = max(steps, key=live.__getitem__, default=0)
    return sum(exchanged[at] for at in range(peak + 1))
