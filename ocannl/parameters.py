"""The parameters of a model."""

from __future__ import annotations

from ocannl.arithmetic import Arithmetic
from ocannl.code import Code
from ocannl.dialects import texpr
from ocannl.extract import needed
from ocannl.misuse import ArgumentError
from ocannl.tensor import Tensor, TensorLike, as_tensor


def params(target: TensorLike | Code) -> dict[str, Tensor]:
    """The parameters that a tensor or code depends on, by name, in the order of their first use.

    Parameters of the same name are told apart by a number: `w`, `w2`.
    """
    if isinstance(target, Code):
        ops = needed(target.statements)
    elif not isinstance(target, Arithmetic):
        raise ArgumentError(f"expected a tensor or code, found {type(target).__name__}")
    else:
        tensor = as_tensor(target)
        ops = [*needed([tensor.op]), tensor.op]
    found: dict[str, Tensor] = {}
    for op in ops:
        if isinstance(op, texpr.ParamOp):
            label, count = op.label.data, 1
            while label in found:
                count += 1
                label = f"{op.label.data}{count}"
            found[label] = Tensor(op)
    return found
