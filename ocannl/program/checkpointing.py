"""Gradient checkpointing: what a function computes is computed again for its derivatives, and not kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.program import graph
from ocannl.program.derivatives import copy
from ocannl.program.tensor import Expression, Tensor, as_tensor
from ocannl.program.trees import built, form_of, leaves_of
from ocannl.program.values import Value


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of tensors whose derivatives compute again what it computes in between (Chen et al.,
    "Training deep nets with sublinear memory cost", 2016). Its results are tensors, perhaps nested.

    Updates that it adds to its results, as batch normalization does, are added once.
    """

    @functools.wraps(function)
    def checkpointed(*args: Any, **named: Any) -> Any:
        tree = (args, named)
        leaves = [*leaves_of(tree)]
        inputs = [leaf.tensor() for leaf in leaves if isinstance(leaf, Expression)]
        again = [copy(x).named(f"{x.label}_again") for x in inputs]
        replaced = iter(again)
        second_args, second_named = built(
            form_of(tree), iter([next(replaced) if isinstance(leaf, Expression) else leaf for leaf in leaves])
        )
        first, second = function(*args, **named), function(*second_args, **second_named)
        pairs = zip(leaves_of(first), leaves_of(second), strict=True)
        found = [_recomputed(as_tensor(y).ir_value, as_tensor(y_again).ir_value) for y, y_again in pairs]
        return built(form_of(first), iter(found))

    return checkpointed


def _recomputed(value: Value, again: Value) -> Tensor:
    """A value, with the derivatives of another one that is the same."""
    adjoint = graph.add(AdjointOp(value, _like(value)), "cotangent")
    return Tensor(graph.add(CustomOp(value, adjoint, [again], [adjoint], _like(value)), "checkpoint"))


def _like(value: Value) -> TensorType:
    return TensorType.of(shape_of(value))
