"""Gradient checkpointing: what a function computes is computed again for its derivatives, and not kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ocannl.dialects import texpr
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp
from ocannl.dialects.texpr.nested import nested_in
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import built, form_of, leaves_of
from ocannl.program.derivatives import copy
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.module.needed import needed_for
from ocannl.program.tensor import Expression, Tensor, as_tensor
from ocannl.program.values import Value, now, value_of


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of tensors whose derivatives compute again what it computes in between (Chen et al.,
    "Training deep nets with sublinear memory cost", 2016). Its results are tensors, perhaps nested; others
    stay as they are.

    The function is called twice. Random numbers are the same in both calls, so that what dropout has left out
    stays out; updates that it adds to its results, as batch normalization does, are added once.
    """
    if not callable(function):
        raise ArgumentError(f"oc.checkpoint takes a function of tensors, found {function!r}")

    @functools.wraps(function)
    def checkpointed(*args: Any, **named: Any) -> Any:
        tree = (args, named)
        leaves = [*leaves_of(tree)]
        inputs = [leaf.tensor() for leaf in leaves if isinstance(leaf, Expression)]
        again = [copy(x, again=True).named(f"{x.label}_again") for x in inputs]
        replaced = iter(again)
        second_args, second_named = built(
            form_of(tree), iter([next(replaced) if isinstance(leaf, Expression) else leaf for leaf in leaves])
        )
        begin, first = now(), function(*args, **named)
        if not any(isinstance(y, Expression) for y in leaves_of(first)):
            return first  # What an `oc.function` makes of arrays has no derivatives.
        between, second = now(), function(*second_args, **second_named)
        _take_over(_made_since(begin, leaves_of(first)), _made_since(between, leaves_of(second)))
        found = map(_recomputed, leaves_of(first), leaves_of(second))
        return built(form_of(first), found)

    return checkpointed


def _made_since(begin: int, results: Iterable[Any]) -> list[texpr.TensorOp]:
    """The operations that results depend on and that were made since then, in their order."""
    ops = needed_for([as_tensor(y).ir_value for y in results if isinstance(y, Expression)])
    return sorted((op for op in ops if _when_made(op) > begin), key=_when_made)


def _when_made(op: texpr.TensorOp) -> int:
    return value_of(op).made


def _take_over(first: Sequence[texpr.TensorOp], second: Sequence[texpr.TensorOp]) -> None:
    """Gives a second computation the random numbers of the first one, and leaves updates to that."""
    for op in second:
        value_of(op).updates = None
    drawn, again = ([op for op in nested_in(ops) if isinstance(op, UniformOp)] for ops in (first, second))
    for one, other in zip(drawn, again, strict=True):
        other.stream = one.stream
        if "call" in one.attributes:
            other.attributes["call"] = one.attributes["call"]
        if one in first:
            other.operands = [one.counter, *other.operands[1:]]


def _recomputed(result: Any, second: Any) -> Any:
    """A tensor, with the derivatives of another that is the same; anything else as it is."""
    if not isinstance(result, Expression):
        return result
    value, again = result.tensor().ir_value, as_tensor(second).ir_value
    adjoint = graph.add(AdjointOp(value, _like(value)), "cotangent")
    made = graph.add(CustomOp(value, adjoint, [again], [adjoint], _like(value)), "checkpoint")
    return Tensor(keep_all_axes(made, value))


def _like(value: Value) -> TensorType:
    return TensorType.of(shape_of(value))
