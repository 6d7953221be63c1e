"""Copies of memory that routines keep between runs: of which nodes there may be some."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.assign.node import KEPT
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp, StoreOp
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import Opaque, declaration, nodes, touches, ungrouped_steps

PARAMETER = "parameter"
# Smaller parameters are packed in less time than a check takes to pay.
LEAST_BYTES = 2**15


def may_be_copied(node: NodeOp) -> bool:
    """Whether routines may keep copies of a node: all that write its memory count their writes then."""
    return node.mode.data == "on_device" and node.why.data == PARAMETER and byte_size(node) >= LEAST_BYTES


def unwritten(func: FuncOp) -> frozenset[SSAValue]:
    """The nodes that may be copied and that the function does not write."""
    return frozenset(node.result for node in nodes(func) if may_be_copied(node)) - written(func)


def is_kept(step: NestOp | GroupOp) -> bool:
    """Whether a step is a nest that writes a copy that is kept between runs."""
    stored = [n for op, n in touches(step) if type(op) is StoreOp] if isinstance(step, NestOp) else []
    return any(declaration(node).mode.data == KEPT for node in stored)


def counted_writes(func: FuncOp) -> list[SSAValue]:
    """The nodes that may be copied and that the function may write."""
    found = written(func)
    return [node.result for node in nodes(func) if node.result in found and may_be_copied(node)]


def written(func: FuncOp) -> set[SSAValue]:
    """The nodes that a function writes, or that a loop's body or a collective may write."""
    found = set[SSAValue]()
    for step in ungrouped_steps(func):
        if isinstance(step, Opaque):
            found.update(step.operands)
        else:
            found.update(node for op, node in touches(step) if type(op) is StoreOp)
    return found
