"""The nodes that steps of a function read and write, and the order of the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.loops import FuncOp, LoadOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Opaque, Step, accesses, all_steps, written_nodes


@dataclass
class StepOrder:
    """The steps of a function with their positions."""

    func: FuncOp
    steps: list[Step] = field(init=False)
    positions: dict[Operation, int] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = all_steps(self.func)
        self.positions = {step: position for position, step in enumerate(self.steps)}

    def step_around(self, op: Operation) -> Operation:
        """The step that an operation is part of; of one that was taken out of the function, the outermost."""
        while (parent := op.parent_op()) is not None and parent is not self.func:
            op = parent
        return op

    def readers(self, node: SSAValue) -> Iterator[int]:
        """The positions of the steps that use a node, several times where these do."""
        for use in node.uses:
            position = self.positions.get(self.step_around(use.operation))
            if position is not None:
                yield position


def reads_of(step: Step) -> list[SSAValue]:
    """The nodes that a step may read; a loop or a collective, all that it is given."""
    if isinstance(step, Opaque):
        return step.nodes
    return list(dict.fromkeys(op.node for op in accesses(step) if isinstance(op, LoadOp)))


writes_of = written_nodes
