"""The interface of a compiled routine: its arguments, and the nodes that it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.assign.node import KEPT
from ocannl.dialects.loops import FuncOp
from ocannl.dialects.scalar.precisions import dtype_name
from ocannl.lowering.arena import has_own_memory
from ocannl.lowering.entry import EntryLayout, entry_layout
from ocannl.passes.analysis.nests import nodes, uncalled
from ocannl.passes.analysis.routine_facts import RoutineFacts, routine_facts


@dataclass(frozen=True)
class NodeFacts:
    """The array of a node: its sizes, its NumPy dtype by name; why the node has memory, and whether it is a
    copy that the routine keeps.
    """

    shape: tuple[int, ...]
    dtype: str
    why: str
    is_kept: bool = False


@dataclass(frozen=True)
class Interface:
    """The name of a routine, the slots of its arguments, the ranges of its static indices, the nodes that it
    reads and writes, and the nodes with memory of their own by label.
    """

    name: str
    layout: EntryLayout
    ranges: Mapping[str, int | None]
    facts: RoutineFacts
    nodes: Mapping[str, NodeFacts]

    @staticmethod
    def of(func: FuncOp) -> Interface:
        """The interface of a scheduled routine."""
        facts = {
            node.label.data: NodeFacts(
                node.result.type.get_shape(),
                dtype_name(node.result.type.element_type),
                node.why.data,
                node.mode.data == KEPT,
            )
            for node in nodes(func)
            if has_own_memory(node)
        }
        return Interface(func.sym_name.data, entry_layout(func), func.ranges, routine_facts(func), facts)


def the_func(module: ModuleOp) -> FuncOp:
    """The routine of a module that no other one repeats."""
    (func,) = uncalled(module)
    return func
