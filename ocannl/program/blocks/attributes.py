"""The attributes of objects that their methods use, and the same objects with others in their place."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar

T = TypeVar("T")


def call_of(function: object) -> MethodType | None:
    """The method that calling a user's object calls; none of a class, and of this package's objects."""
    kind = type(function)
    call = inspect.getattr_static(kind, "__call__", None)
    is_own = isinstance(call, FunctionType) and not kind.__module__.startswith("ocannl.")
    return MethodType(call, function) if is_own else None


def attributes_of(method: MethodType) -> dict[str, Any]:
    """The attributes of a method's object that it uses by itself or through other methods, by name."""
    instance = method.__self__
    own: dict[str, Any] = getattr(instance, "__dict__", {})
    found, seen, stack = dict[str, Any](), set[object](), [method.__func__]
    while stack:
        function = inspect.unwrap(stack.pop())
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        for name in _names_in(function.__code__):
            if name in own:
                found[name] = own[name]
            elif callable(other := inspect.getattr_static(type(instance), name, None)):
                stack.append(other)
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def with_attributes(instance: T, changes: Mapping[str, Any]) -> T:
    """A copy of an object with some other attributes; the object itself where there are none."""
    if not changes:
        return instance
    made = copy.copy(instance)
    vars(made).update(changes)
    return made
