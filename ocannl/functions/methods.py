"""Functions as methods: of each object, a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ocannl.program.arguments.errors import ArgumentError

T = TypeVar("T")

ATTRIBUTE = "_ocannl_functions"
"""The attribute in which an object keeps the functions that are its methods."""


class Methods:
    """The functions that are methods of an object; a copy of the object has others, and none are pickled."""

    def __init__(self, of: object) -> None:
        self.of = of
        self.found: dict[object, Any] = {}

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _none, ()


def _none() -> None:
    pass


def instance_of(owner: type, name: str, args: Sequence[object]) -> object:
    """The instance with which the arguments of a method begin that is asked for by its class. Raises
    `ArgumentError` where there is none.
    """
    if args and isinstance(args[0], owner):
        return args[0]
    of = owner.__name__
    raise ArgumentError(
        f"{name} is a method of an instance, as `{of}(...).{name}`, and was called as `{of}.{name}`"
    )


def method_of(instance: object, function: object, make: Callable[[], T]) -> T | None:
    """The function that is a method of an object, made when it is asked for first; None for an object that
    has no attributes but those of its slots.
    """
    attributes: object = getattr(instance, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    own = cast("dict[str, Any]", attributes)
    methods = own.get(ATTRIBUTE)
    if not isinstance(methods, Methods) or methods.of is not instance:
        methods = own[ATTRIBUTE] = Methods(instance)
    if function not in methods.found:
        methods.found[function] = make()
    return methods.found[function]
