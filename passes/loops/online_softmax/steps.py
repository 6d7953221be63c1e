"""The nodes that steps of a function read and write."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.loops import LoadOp
from ocannl.passes.analysis.nests import Opaque, Step, accesses, written_nodes


def reads_of(step: Step) -> list[SSAValue]:
    """The nodes that a step may read; a loop or a collective, all that it is given."""
    if isinstance(step, Opaque):
        return step.nodes
    return list(dict.fromkeys(op.node for op in accesses(step) if isinstance(op, LoadOp)))


writes_of = written_nodes
