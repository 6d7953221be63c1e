"""Errors for arguments of wrong types, found by annotations after a call of a public function has failed."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from ocannl.dialects.ir.errors import OcannlError
from ocannl.program.argument_types import fits
from ocannl.program.errors import ArgumentError
from ocannl.program.tensor import TensorLike


def explain_all(names: Iterable[str], public: MutableMapping[str, Any]) -> None:
    """Makes public functions, and constructors and methods of public classes, raise `ArgumentError` for
    arguments of wrong types, in place.

    Types are checked only after a call has failed, so that calls cost nothing.
    """
    for name in names:
        value = public[name]
        if inspect.isfunction(value):
            public[name] = explained(value)
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            for attribute, method in list(vars(value).items()):
                is_public = not attribute.startswith("_") or attribute in ("__init__", "__getitem__")
                if is_public and inspect.isfunction(method):
                    setattr(value, attribute, explained(method))


def explained(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises `ArgumentError` where it fails and an argument is not of its type.

    The exception of a wrong argument depends on where it is used first, so arguments are checked after any.
    If all are right, the exception is raised again.
    """

    @functools.wraps(function)
    def explaining(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except OcannlError:
            raise
        except Exception:
            blame(function, args, named)
            raise

    return explaining


def blame(function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raises `ArgumentError` for the first argument that is not of its type; none if the call has no such."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError:
        return
    for name, value in given.items():
        parameter, values = signature.parameters[name], [value]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values = list(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            values = list(value.values())
        for one in values:
            if not fits(one, _hint(function, parameter)):
                written = function.__annotations__.get(name, "Tensor")
                raise ArgumentError(
                    f"`{name}` of {function.__name__} is of type {written}, found {one!r}"
                ) from None


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of a parameter; one without annotation is a tensor, or what stands for one."""
    if parameter.name == "self":
        return Any
    if parameter.annotation is parameter.empty:
        return TensorLike | None if parameter.default is None else TensorLike
    return typing.get_type_hints(function).get(parameter.name, Any)
