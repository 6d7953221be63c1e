"""The canonical text of a nest or a group: its text without labels and names of values."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.text_printer import op_text
from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.passes.analysis.nests import declaration, used_nodes

NO_NAME = StringAttr("")


def canonical_text(step: NestOp | GroupOp) -> str:
    """The text of a step apart from the routine; equal for steps that have the same candidate schedules."""
    nodes = used_nodes(step)
    unnamed: dict[SSAValue, SSAValue] = {
        node: NodeOp("", "on_device", "", declaration(node).result.type).result for node in nodes
    }
    copy = step.clone(unnamed)
    for op in copy.walk():
        for result in op.results:
            result.name_hint = None
        if isinstance(op, NestOp | GroupOp | NodeOp):
            op.properties["label"] = NO_NAME
        if isinstance(op, NodeOp):
            op.properties["why"] = NO_NAME
    types = ", ".join(str(node.type) for node in nodes)
    return f"({types}) {op_text(copy)}"
