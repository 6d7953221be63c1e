"""Tables of a solver, and variables that carry what is known of them.

A pass keeps what it learns in dictionaries, which live as long as the pass. A program under construction has
no end: what is known of a variable lives on the variable, and the state of a constraint on the constraint, so
that both go with the last expression that has them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

KeyT = TypeVar("KeyT", contravariant=True)
ValueT = TypeVar("ValueT")


class Table(Protocol[KeyT, ValueT]):
    """The part of a dictionary that propagation uses."""

    def get(self, key: KeyT, /) -> ValueT | None: ...
    def __getitem__(self, key: KeyT, /) -> ValueT: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __setitem__(self, key: KeyT, value: ValueT, /) -> None: ...
    def __delitem__(self, key: KeyT, /) -> None: ...


class VarId(int):
    """The number of a variable under construction. None has it again, also when this one is gone.

    Its attributes are entries of the tables of a store, None where they have none.
    """

    dims = rows = dim_bindings = row_bindings = lower = at_least = topped = None
    dim_watchers = row_watchers = paired = None


class OnKeys(Generic[KeyT, ValueT]):
    """A table whose entries are an attribute of their keys, None for keys that it does not have."""

    __slots__ = ("get", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.get: Any = attrgetter(name)

    def __getitem__(self, key: KeyT, /) -> ValueT:
        return getattr(key, self.name)

    def __contains__(self, key: Any, /) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: KeyT, value: ValueT, /) -> None:
        setattr(key, self.name, value)

    def __delitem__(self, key: KeyT, /) -> None:
        setattr(key, self.name, None)
