"""Derivatives as expressions, which can be differentiated again; and operations with custom gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from xdsl.dialects.builtin import UnitAttr

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, JvpOp, VjpOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.program import expressions, graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number, is_truth, number
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.eager.setting import is_eager
from ocannl.program.indexing.new_axes import keep_all_axes
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import Value

KeyT = TypeVar("KeyT")
Tensors: TypeAlias = TensorLike | Sequence[TensorLike] | Mapping[Any, TensorLike]
"""One tensor, a sequence, or a mapping by name."""
Pulled: TypeAlias = TensorLike | Sequence[TensorLike | None] | None
Pullback: TypeAlias = Callable[[Tensor], Pulled]


def _several(tensors: Tensors) -> Mapping[Any, TensorLike]:
    """Each tensor by its name or its number."""
    if isinstance(tensors, Mapping):
        return tensors
    return dict(enumerate(tensors)) if isinstance(tensors, Sequence) else {0: tensors}


def _in_form_of(tensors: Tensors, found: Mapping[Any, Tensor]) -> Any:
    """Results in the form in which the tensors were given."""
    if isinstance(tensors, Mapping):
        return dict(found)
    return tuple(found.values()) if isinstance(tensors, Sequence) else found[0]


def _again(key: tuple[Any, ...], make: Callable[[], texpr.TensorOp]) -> Value:
    """The value of an operation; in eager mode the one that was made for a key."""
    return RECORDER.once(key, lambda: graph.add(make())) if is_eager() else graph.add(make())


def _like(value: Value) -> TensorType:
    return TensorType.of(shape_of(value))


@overload
def vjp(y: TensorLike, xs: TensorLike, cotangent: TensorLike | None = None) -> Tensor: ...
@overload
def vjp(
    y: TensorLike, xs: Sequence[TensorLike], cotangent: TensorLike | None = None
) -> tuple[Tensor, ...]: ...
@overload
def vjp(
    y: TensorLike, xs: Mapping[KeyT, TensorLike], cotangent: TensorLike | None = None
) -> dict[KeyT, Tensor]: ...
def vjp(y: TensorLike, xs: Tensors, cotangent: TensorLike | None = None) -> Any:
    """The vector-Jacobian products of `y` (reverse mode): the gradients of the sum of `y * cotangent` with
    respect to `xs`, each of the shape of its `x`; zeros where `y` does not depend on it.

    `xs` is one tensor or expression, a sequence or a mapping, and so is the result. The cotangent is
    broadcast to the shape of `y`; without one `y` is one number. Raises `ShapeError` where the cotangent does
    not fit, and when compiled `OcannlError` where there is no gradient.
    """
    value = as_tensor(y).ir_value
    weights = None if cotangent is None else as_tensor(cotangent).ir_value

    def one(x: TensorLike) -> Tensor:
        wrt = as_tensor(x).ir_value
        found = _again(("vjp", value, wrt, weights), lambda: VjpOp(value, wrt, weights, _like(wrt)))
        return Tensor(keep_all_axes(found, wrt))

    return _in_form_of(xs, {key: one(x) for key, x in _several(xs).items()})


@overload
def grad(y: TensorLike, xs: TensorLike) -> Tensor: ...
@overload
def grad(y: TensorLike, xs: Sequence[TensorLike]) -> tuple[Tensor, ...]: ...
@overload
def grad(y: TensorLike, xs: Mapping[KeyT, TensorLike]) -> dict[KeyT, Tensor]: ...
def grad(y: TensorLike, xs: Tensors) -> Any:
    """The gradients of one number with respect to `xs`, each of the shape of its `x`: `oc.vjp(y, xs)`."""
    return vjp(y, xs)


@overload
def jvp(y: TensorLike, xs: Tensors, tangents: Tensors) -> Tensor: ...
@overload
def jvp(y: Sequence[TensorLike], xs: Tensors, tangents: Tensors) -> tuple[Tensor, ...]: ...
@overload
def jvp(y: Mapping[KeyT, TensorLike], xs: Tensors, tangents: Tensors) -> dict[KeyT, Tensor]: ...
def jvp(y: Tensors, xs: Tensors, tangents: Tensors) -> Any:
    """The Jacobian-vector product of `y` (forward mode), its directional derivative when each of `xs` changes
    by its tangent; of the shape of `y`.

    `y` is one tensor, a sequence or a mapping, and so is the result; `xs` and `tangents` have one form.
    Tangents are broadcast to the shapes of `xs`. Raises `ShapeError` where they do not fit, and when compiled
    `OcannlError` where there is no derivative.
    """
    directions, by_key = _several(xs), _several(tangents)
    if directions.keys() != by_key.keys():
        raise ArgumentError(f"each x has one tangent; found {len(directions)} and {len(by_key)}")
    wrt = [as_tensor(x).ir_value for x in directions.values()]
    by = [as_tensor(by_key[key]).ir_value for key in directions]

    def one(y: TensorLike) -> Tensor:
        value = as_tensor(y).ir_value
        found = _again(("jvp", value, *wrt, *by), lambda: JvpOp(value, wrt, by, _like(value)))
        return Tensor(keep_all_axes(found, value))

    return _in_form_of(y, {key: one(each) for key, each in _several(y).items()})


def custom_gradient(function: Callable[..., tuple[TensorLike, Pullback]]) -> Callable[..., Tensor]:
    """Makes an operation with a custom gradient, from a function that returns a tensor and its pullback (as
    `jax.custom_gradient`).

    The pullback takes the cotangent of the result, and returns the cotangent of each positional argument: a
    tensor, or a tuple of as many as there are arguments, with None for zero. It is summed over the axes that
    the argument is broadcast along. No gradient goes to tensors that the function takes from elsewhere.
    Forward mode transposes the pullback, which has to be linear in the cotangent then.
    """

    @functools.wraps(function)
    def operation(*args: TensorLike, **configuration: Any) -> Tensor:
        xs = _arguments(args)
        y, pullback = function(*xs, **configuration)
        value = as_tensor(y).ir_value
        adjoint = graph.add(AdjointOp(value, _like(value)), "cotangent")
        reached = _reached(pullback(Tensor(adjoint)), xs)
        wrt, by = [x for x, _ in reached], [pulled for _, pulled in reached]
        result = graph.add(CustomOp(value, adjoint, wrt, by, _like(value)), function.__name__)
        return Tensor(keep_all_axes(result, value))

    return operation


def _arguments(args: Sequence[TensorLike]) -> list[Tensor]:
    """Arguments as tensors; in eager mode, a number beside a tensor is the same one each time, or data."""
    beside = next((arg.ir_value for arg in args if isinstance(arg, Tensor)), None)
    if beside is None:
        return [as_tensor(arg) for arg in args]
    return [
        Tensor(expressions.number_in("=", number(arg), beside))
        if is_number(arg) and not is_truth(arg)
        else as_tensor(arg)
        for arg in args
    ]


def _reached(found: Pulled, xs: Sequence[Tensor]) -> list[tuple[Value, Value]]:
    """The arguments that a pullback has cotangents for, with these."""
    given = found if isinstance(found, Sequence) else [found]
    if len(given) != len(xs):
        raise ArgumentError(
            f"a pullback gives one tensor for each of {len(xs)} arguments, found {len(given)}"
        )
    pairs = zip(xs, given, strict=True)
    return [(x.ir_value, as_tensor(pulled).ir_value) for x, pulled in pairs if pulled is not None]


def stop_gradient(x: TensorLike) -> Tensor:
    """The same value and shape, with derivative zero."""
    return copy(x, stop=True, label="stop_gradient")


def copy(x: TensorLike, *, stop: bool = False, again: bool = False, label: str | None = None) -> Tensor:
    """A copy of a value. Its derivative is that of the value: zero with `stop`. What
    is computed from a copy `again` is computed as late as possible.
    """
    value = as_tensor(x).ir_value
    copied = expressions.apply(Arg(0), [value], logic=".", stop=stop, label=label)
    if again:
        assert isinstance(copied.op, texpr.ApplyOp)
        copied.op.again = UnitAttr()
    return Tensor(keep_all_axes(copied, value))
