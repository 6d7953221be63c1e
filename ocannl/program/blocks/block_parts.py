"""The parts of a block: the parameters, nodes and blocks among the variables that its function uses.

A function that it uses is a part like a block, unless one function made both, or a private one made it: such
a helper is a piece of the block's own definition, and its parts are the block's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ocannl.dialects import texpr
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.blocks.closures import rebuilt, variables_of
from ocannl.program.module.needed import needed
from ocannl.program.tensor import Tensor
from ocannl.program.values import Value, value_of

Function: TypeAlias = Callable[..., Any]
Change: TypeAlias = Callable[[Any], Any]


class WithFunction:
    """A block, seen from below: an object with the function by which it is applied."""

    function: Function


def memory_of(target: Any) -> dict[texpr.MemoryOp, Value]:
    """The parameters and nodes in a tensor, a block, a function, or lists and dictionaries of them, in the
    order in which they were made.
    """
    found: dict[texpr.MemoryOp, Value] = {}
    seen: dict[int, Any] = {}
    stack = [target]
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Tensor):
            kept = [*needed([value.op]), value.op]
            found |= {op: value_of(op) for op in kept if isinstance(op, texpr.ParamOp | texpr.NodeOp)}
        else:
            stack += _inside(value)
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(cast(Mapping[Any, Any], value).values())
    if isinstance(value, list | tuple):
        return list(cast(Sequence[Any], value))
    function = value.function if isinstance(value, WithFunction) else value
    return list(variables_of(function).values()) if callable(function) else []


def _order(memory: Value) -> int:
    assert memory.path is not None, "memory is made with its path"
    return memory.path.order


def parts_of(function: Function) -> dict[str, Any]:
    """The parts of a function, by name, in the order in which their memory was made."""
    found: dict[str, Any] = {}
    for name, value in _variables(function):
        found.setdefault(name, value)
    first = {
        name: min(map(_order, memory_of(part).values()), default=math.inf) for name, part in found.items()
    }
    return dict(sorted(found.items(), key=lambda item: first[item[0]]))


def _variables(function: Function) -> Iterator[tuple[str, Any]]:
    helpers: list[Function] = [function]
    for one in helpers:
        for name, value in variables_of(one).items():
            if _is_helper(value, one):
                # A function may use itself, and two each other.
                helpers += [] if value in helpers else [value]
            elif _is_part(value):
                yield name, value


def _is_helper(value: Any, function: Function) -> bool:
    maker = _maker(value)
    return maker is not None and (maker == _maker(function) or maker.startswith("_"))


def _maker(value: Any) -> str | None:
    """The outermost function in which a function was made; none of what is made in none."""
    outer, inside, _ = getattr(value, "__qualname__", "").partition(".<locals>")
    return outer if inside else None


def _is_part(value: Any) -> bool:
    if isinstance(value, WithFunction):
        return True
    if isinstance(value, list | tuple | dict):
        return any(map(_is_part, _inside(value)))
    return (isinstance(value, Tensor) or callable(value)) and bool(memory_of(value))


def changed(function: Function, change: Change) -> Function:
    """The function with other values for its parts, and for those of its helpers; what is used in several
    places is changed once. Raises `ArgumentError` for one that calls itself.
    """
    return _Changing(change).helper(function, ())


class _Changing:
    """A change of parts, and what was changed so far."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.known: dict[int, tuple[Any, Any]] = {}
        """Each value with the one in its place, by the identity of the former."""

    def helper(self, function: Function, within: tuple[Function, ...]) -> Function:
        within, changes = (*within, function), dict[str, Any]()
        variables = variables_of(function)
        for name, value in variables.items():
            if any(value is one for one in within):
                raise ArgumentError(
                    f"`{name}` calls itself: its parts are not changed; make it an object with a `__call__`"
                )
            if _is_helper(value, function):
                changes[name] = self._once(value, lambda helper: self.helper(helper, within))
            elif _is_part(value):
                changes[name] = self._once(value, self._part)
        changes = {name: new for name, new in changes.items() if new is not variables[name]}
        return rebuilt(function, changes) if changes else function

    def _once(self, value: Any, make: Change) -> Any:
        if id(value) not in self.known:
            self.known[id(value)] = value, make(value)
        return self.known[id(value)][1]

    def _part(self, value: Any) -> Any:
        """A part changed, or each of a list or dictionary of parts that is itself kept."""
        new = self.change(value)
        if new is not value or isinstance(value, Tensor):
            return new
        if isinstance(value, Mapping):
            mapping = cast(Mapping[Any, Any], value)
            return {name: self._once(one, self._part) for name, one in mapping.items()}
        if isinstance(value, list | tuple):
            made = [self._once(one, self._part) for one in cast(Sequence[Any], value)]
            return made if isinstance(value, list) else tuple(made)
        return value
