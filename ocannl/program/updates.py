"""Updates: code that belongs to an expression and runs in training steps, such as running statistics."""

from __future__ import annotations

from ocannl.program.code import Code, put_aside
from ocannl.program.eager.recorder import statement_key
from ocannl.program.eager.setting import is_eager
from ocannl.program.module.needed import needed
from ocannl.program.tensor import Tensor, as_tensor
from ocannl.program.values import Updates, Value, value_of


def add_update(tensor: Tensor, code: Code) -> None:
    """Adds `code` to the updates of every loss that depends on an expression.

    Computing the expression does not run it; `oc.updates(loss)` returns it. Code that itself depends on the
    expression is better added to one that depends on both: a tensor that its own updates use is freed by
    Python's collector only.
    """
    put_aside(code)
    value = as_tensor(tensor).ir_value
    earlier = _updates_of(value)
    # In eager mode the expression may be one that was made before, which has its updates already.
    known = set(map(statement_key, earlier.statements)) if is_eager() else ()
    added = [statement for statement in code.statements if statement_key(statement) not in known]
    value.updates = Updates([*earlier.statements, *added], earlier.label or code.label)


def updates(loss: Tensor) -> Code:
    """The updates of everything that a loss depends on, operands first."""
    op = as_tensor(loss).op
    ops = dict.fromkeys([*needed([op]), op])
    return sum((_updates_of(value_of(op)) for op in ops), Code())


def _updates_of(value: Value) -> Code:
    return Code() if value.updates is None else Code(value.updates.statements, value.updates.label)
