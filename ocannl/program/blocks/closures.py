"""The variables from outside that a function uses, and the same function with others in their place."""

from __future__ import annotations

import dis
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from ocannl.program.blocks.attributes import attributes_of, call_of, with_attributes


class WithVariables(ABC):
    """A callable that is not a function of Python's, and says what it uses."""

    @abstractmethod
    def variables(self) -> dict[str, Any]:
        """The variables that it uses, by name."""

    @abstractmethod
    def rebuilt(self, changes: Mapping[str, Any]) -> Callable[..., Any]:
        """The same with other values for some of its variables."""


def variables_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables from outside that a function uses and that have a value, by name: those that it closes
    over, of a method also attributes of its object, and of a user's module the global ones, without functions
    of other modules. An object that is called is its method `__call__`.
    """
    if isinstance(function, WithVariables):
        return function.variables()
    if isinstance(function, MethodType):
        return attributes_of(function) | variables_of(function.__func__)
    if not isinstance(function, FunctionType):
        call = call_of(function)
        return {} if call is None else variables_of(call)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    if is_of_package(function):
        return closed
    found = {name: function.__globals__.get(name) for name in _globals_in(function.__code__)}
    return closed | {name: value for name, value in found.items() if _is_near(value, function)}


def used_by(function: Callable[..., Any]) -> tuple[Any, ...]:
    """A key of what a function is and uses: equal where its code is the same, and the variables from outside
    are the same objects, or functions for which this holds.
    """
    return _used_by(function, set())


def _used_by(function: Callable[..., Any], seen: set[int]) -> tuple[Any, ...]:
    if id(function) in seen:
        return ()
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    parts = [
        _used_by(value, seen) if callable(value) and variables_of(value) else _Same(value)
        for value in variables_of(function).values()
    ]
    return _Same(function) if code is None else code, *parts


class _Same:
    """Equal for one object."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def is_of_package(function: Callable[..., Any]) -> bool:
    """Whether a function is the package's. That of a user is not, whatever module `functools.wraps` names."""
    if isinstance(function, MethodType):
        return is_of_package(function.__func__)
    if isinstance(function, FunctionType):
        name = function.__globals__["__name__"]
    else:
        name = (function if isinstance(function, type) else type(function)).__module__
    return name.startswith("ocannl.")


def _is_near(value: Any, function: FunctionType) -> bool:
    return not isinstance(value, FunctionType) or value.__globals__ is function.__globals__


def _globals_in(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_in(constant)


def rebuilt(function: Callable[..., Any], changes: Mapping[str, Any]) -> Callable[..., Any]:
    """The function with other values for some of its variables; it shares the rest."""
    if isinstance(function, WithVariables):
        return function.rebuilt(changes)
    if isinstance(function, MethodType):
        own = attributes_of(function)
        of_function = {name: new for name, new in changes.items() if name not in own}
        changed = with_attributes(function.__self__, {n: new for n, new in changes.items() if n in own})
        return MethodType(rebuilt(function.__func__, of_function), changed)
    call = call_of(function)
    if call is not None:
        return with_attributes(function, changes)
    assert isinstance(function, FunctionType)
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple([CellType(changes[name]) if name in changes else cell for name, cell in cells])
    of_module = {name: value for name, value in changes.items() if name not in code.co_freevars}
    scope = {**function.__globals__, **of_module} if of_module else function.__globals__
    made = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    vars(made).update(vars(function))
    return made
