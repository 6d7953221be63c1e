"""Pure functions that make several operations: eager mode finds the value of all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import nullcontext
from functools import wraps
from types import NoneType
from typing import Any, ParamSpec, cast
from weakref import WeakKeyDictionary

from ocannl.dialects.scalar.terms import Const
from ocannl.program.blocks.block_parts import WithFunction
from ocannl.program.blocks.closures import is_of_package, variables_of
from ocannl.program.eager.changing_numbers import fixed_numbers
from ocannl.program.eager.made_once import made_once
from ocannl.program.eager.setting import is_eager
from ocannl.program.tensor import Tensor
from ocannl.program.values import Value

P = ParamSpec("P")
SETTINGS = str, int, float, bool, NoneType


def remembered(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """The function, of which eager mode finds what it made of the same tensors and settings.

    It has no effect but its result, and updates that come with that. A call with an argument of another kind,
    such as a function or a captured dimension, is made anew, and so are all of a block that has a part of the
    user's, which may have effects. Numbers among the settings may change with each call; where there are
    none, all numbers of the function are the same each time.
    """

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> Tensor:
        values: list[Value] = []
        how = _settings((*args, *named.values()), values) if is_eager() else None
        if how is None or not _is_of_package(function):
            return function(*args, **named)
        is_set = int in how or float in how
        key = (function, len(args), *named, *how)

        def make() -> Value:
            with nullcontext() if is_set else fixed_numbers():
                return function(*args, **named).ir_value

        return Tensor(made_once(values, key, make))

    return found


_of_package = WeakKeyDictionary[Callable[..., Any], bool]()


def _is_of_package(function: Callable[..., Any]) -> bool:
    """Whether a function uses none from outside of the package."""
    known = _of_package.get(function)
    if known is None:
        known = _of_package[function] = _uses_package_alone(function)
    return known


def _uses_package_alone(function: Callable[..., Any]) -> bool:
    seen, waiting = set[int](), list[Any]([function])
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            waiting += cast("Mapping[Any, Any]", value).values()
        elif isinstance(value, list | tuple):
            waiting += cast("Iterable[Any]", value)
        elif isinstance(value, WithFunction):
            waiting.append(value.function)
        elif callable(value):
            if not is_of_package(value):
                return False
            waiting += variables_of(value).values()
    return True


def _settings(arguments: Iterable[object], values: list[Value]) -> list[Hashable] | None:
    """The arguments but tensors, whose values are added to `values`; None where one is of another kind. A
    number is another setting than an equal one of another type or sign.
    """
    how: list[Hashable] = []
    for argument in arguments:
        if type(argument) is Tensor:
            values.append(argument.ir_value)
            how.append(Tensor)
        elif type(argument) in SETTINGS:
            is_number = isinstance(argument, float | int)
            how += type(argument), Const(argument) if is_number else argument
        else:
            return None
    return how
