"""Functions of points as one operation, whatever number of operators they have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.program import expressions
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number
from ocannl.program.eager.setting import is_eager
from ocannl.program.indexing.new_axes import keep_new_axes, lined_up
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.tensor_functions.points import Point
from ocannl.program.values import Value

P = ParamSpec("P")


def pointwise(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """A function of tensors that only has operators, as one operation of the program: `@oc.pointwise`.

    It computes what the function computes, and is built and compiled in less time where there are many
    operators, as in the update of each parameter of a large model. Its arguments are all that it computes
    from; numbers stay numbers. It has all of its values at each point: those of operands that broadcast, too.
    A value that is used twice belongs to each of its uses, and may be rounded otherwise. In eager mode it is
    the function itself.

    Raises `ArgumentError` for what is not a function, and for arguments that it does not take.
    """
    if not callable(function):
        raise ArgumentError(f"oc.pointwise makes an operation of a function, found {function!r}")

    signature = inspect.signature(function)

    @wraps(function)
    def of_tensors(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{function.__name__}(): {error}") from None
        given = [*args, *kwargs.values()]
        if is_eager() or any(isinstance(one, Point) for one in given):
            return function(*args, **kwargs)
        values = list[Value]()
        points = [_point(one, values) for one in given]
        values[:] = lined_up(values)
        positional = points[: len(args)]
        by_name = dict(zip(kwargs, points[len(args) :], strict=True))
        found: object = cast(Any, function)(*positional, **by_name)
        return _applied(found, values)

    return of_tensors


def _point(operand: object, values: list[Value]) -> object:
    """An argument as the function gets it: numbers are part of the operation."""
    if is_number(operand):
        return operand
    values.append(as_tensor(cast(TensorLike, operand)).ir_value)
    return Point(Arg(len(values) - 1))


def _applied(found: object, values: list[Value]) -> Tensor:
    if not isinstance(found, Point):
        return as_tensor(cast(TensorLike, found))
    if isinstance(found.term, Arg):
        return Tensor(values[found.term.index])
    read = Combination.of(found.term, values, [()] * len(values))
    if not read.operands:
        raise ArgumentError("a function of points computes from its arguments")
    operands = cast("tuple[Value, ...]", read.operands)
    return Tensor(keep_new_axes(expressions.apply(read.term, operands, logic="."), operands))
