"""Code that changes memory only where a condition holds."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl.dialects import texpr
from ocannl.program.code import Recording, recording
from ocannl.program.tensor import assign
from ocannl.program.values import Value


def only_if(condition: oc.Tensor, body: Callable[[], None]) -> None:
    """Emits the code of `body`. What it assigns to parameters, and to nodes that were said to be of a kind,
    changes only if the condition, which is one number, is 1; other nodes are set anew by each run.
    """
    block = Recording()
    with recording(block):
        body()
    for op in block.statements:
        target = _lasting(op)
        if target is None or not isinstance(op, texpr.AssignOp):
            oc.run(oc.Code([op]))
        else:
            value = op.value
            assert isinstance(value, Value)
            assign(oc.Tensor(target), oc.where(condition, oc.Tensor(value), oc.Tensor(target)))


def _lasting(op: object) -> Value | None:
    """The memory that an assignment writes, if it lasts."""
    if not isinstance(op, texpr.AssignOp):
        return None
    target = op.target
    assert isinstance(target, Value)
    return target if isinstance(target.op, texpr.ParamOp) or target.kind is not None else None
