"""Locations that are made when something looks at them: those of copies for equal layers, at which hardly
anything does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation


class LateLocation:
    """The location of an operation that has none yet: who asks gets it made. One that is made is in the
    dictionary of the operation, which Python looks up before this.
    """

    def __get__(self, op: Operation | None, owner: type[Operation] | None = None) -> LocationAttr:
        make: Callable[[], LocationAttr] | None = None if op is None else vars(op).pop("late_location", None)
        if op is None or make is None:
            raise AttributeError("location")
        op.location = make()
        return op.location


OperationT = TypeVar("OperationT", bound=Operation)


def located_late(cls: type[OperationT]) -> type[OperationT]:
    """Lets operations of a class have no location yet. In its definition, xDSL takes this for a mistake."""
    cls.location = cast(LocationAttr, LateLocation())
    return cls


def locate_late(op: Operation, make: Callable[[], LocationAttr]) -> None:
    """Gives an operation, whose class is `located_late`, the location that `make` will return."""
    attributes = vars(op)
    attributes.pop("location", None)
    attributes["late_location"] = make
