"""Updates: code that belongs to an expression and runs in training steps, such as running statistics."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from xdsl.ir import Operation

from ocannl.program.code import Code
from ocannl.program.extract import needed
from ocannl.program.tensor import Tensor, as_tensor

_updates: WeakKeyDictionary[Operation, Code] = WeakKeyDictionary()


def add_update(tensor: Tensor, code: Code) -> None:
    """Adds `code` to the updates of every loss that depends on an expression.

    Computing the expression does not run it; `oc.updates(loss)` returns it.
    """
    op = as_tensor(tensor).op
    _updates[op] = _updates.get(op, Code()) + code


def updates(loss: Tensor) -> Code:
    """The updates of everything that a loss depends on, operands first."""
    op = as_tensor(loss).op
    ops = dict.fromkeys([*needed([op]), op])
    return sum((_updates[op] for op in ops if op in _updates), Code())
