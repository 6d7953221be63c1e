"""The parameters of a model."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.passes.analysis.values.derivative_paths import differentiable_operands
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.blocks.block import Block
from ocannl.program.code import Code
from ocannl.program.module.needed import needed
from ocannl.program.names import memory_names
from ocannl.program.tensor import Expression, Tensor, TensorLike, as_tensor
from ocannl.program.values import value_of


def params(target: TensorLike | Code | Block[..., Any], *, trained: bool = False) -> dict[str, Tensor]:
    """The parameters that a tensor or code depends on, by name, in the order of their first use; or those of
    a block, `block.params`.

    Parameters of the same path are told apart by numbers in the order in which they were made: `linear.w`,
    `linear_1.w`. With `trained`, only those that the tensor has derivatives for, not behind
    `oc.stop_gradient`. Raises `ArgumentError` for `trained` of code, or of a block.
    """
    if isinstance(target, Block):
        if trained:
            raise ArgumentError("parameters are trained by derivatives of a tensor, found a block")
        return target.params
    if isinstance(target, Code):
        ops = needed(target.statements)
    elif not isinstance(target, Expression):
        raise ArgumentError(f"expected a tensor, code or a block, found {type(target).__name__}")
    else:
        tensor = as_tensor(target)
        ops = [*needed([tensor.op]), tensor.op]
    names = memory_names(op for op in ops if isinstance(op, texpr.ParamOp))
    found = {names[op]: Tensor(value_of(op)) for op in ops if isinstance(op, texpr.ParamOp)}
    if not trained:
        return found
    if isinstance(target, Code):
        raise ArgumentError("parameters are trained by derivatives of a tensor, found code")
    reached = _reached(as_tensor(target).op)
    return {label: p for label, p in found.items() if p.op in reached}


def _reached(op: Operation) -> set[Operation]:
    """The operations that the derivative of one reaches."""
    found, stack = set[Operation](), [op]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [v.owner for v in differentiable_operands(op) if isinstance(v.owner, Operation)]
    return found
