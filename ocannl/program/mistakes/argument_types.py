"""A test whether a value is of the type of an annotation."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from ocannl.program.eager.present_value import PresentValue

CALLABLE = typing.get_origin(Callable[[], None])


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type: false only where that is certain."""
    if hint is None or hint is types.NoneType:
        return value is None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is typing.Literal:
        return isinstance(value, str) and value in args
    if hint is int:
        is_none = isinstance(value, bool | np.ndarray | PresentValue | type)
        return isinstance(value, SupportsIndex) and not is_none
    if hint is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.complexfloating)
    cls = hint if origin is None else origin
    if cls is CALLABLE:
        return callable(value)
    if cls is Any or not isinstance(cls, type):
        return True
    if typing.is_typeddict(cls):
        return isinstance(value, Mapping)
    if getattr(cls, "_is_protocol", False):
        return all(hasattr(value, name) for name in _methods(cls))
    return isinstance(value, cls) and _elements_fit(value, args)


def _methods(protocol: type) -> list[str]:
    """The methods that a protocol asks for."""
    return [
        name
        for name, member in vars(protocol).items()
        if isinstance(member, types.FunctionType) and (name == "__call__" or not name.startswith("_"))
    ]


def _elements_fit(value: object, args: Sequence[Any]) -> bool:
    elements: list[object] = []
    if isinstance(value, Mapping):
        elements += cast(Mapping[object, object], value).values()
    elif isinstance(value, Sequence) and len(args) == 1:
        elements += cast(Sequence[object], value)
    return not args or (not isinstance(value, str | bytes) and all(fits(one, args[-1]) for one in elements))
