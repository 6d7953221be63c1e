"""Nodes that stay as they are while a loop runs."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.assign.node import OWN_MEMORY
from ocannl.dialects.loops import FuncOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.dataflow.kept_copies import written
from ocannl.passes.analysis.nests import all_steps, functions, node_mode, nodes


@dataclass(frozen=True)
class Iterations:
    """The loops over a body: their index, and how often the shortest of them runs it."""

    index: str
    count: int


def iterations(module: ModuleOp) -> dict[str, Iterations]:
    """The loops over each body by its name, where all of them have the same index."""
    loops = dict[str, list[RepeatOp]]()
    for step in (step for func in functions(module) for step in all_steps(func)):
        if type(step) is RepeatOp:
            loops.setdefault(step.body.data, []).append(step)
    return {
        body: Iterations(found[0].index.data, min(step.count.data for step in found))
        for body, found in loops.items()
        if len({step.index.data for step in found}) == 1
    }


def invariant_nodes(body: FuncOp) -> frozenset[SSAValue]:
    """The nodes that a body is given and does not write."""
    given = (node.result for node in nodes(body) if node_mode(node.result) in OWN_MEMORY)
    return frozenset(given) - written(body)
