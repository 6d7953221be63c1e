"""The operations, iteration variables and bounds around an operation."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import SpaceAttr
from ocannl.dialects.routine import RoutineOp


def scopes(op: Operation) -> Iterator[Operation]:
    """The operations around `op`, from the inside out, up to its routine."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoutineOp):
        yield parent
        parent = parent.parent_op()


def scope_sizes(op: Operation) -> dict[str, int]:
    """The iteration variables around an operation, with their sizes: those of all spaces around it."""
    spaces = (p for scope in scopes(op) for p in scope.properties.values() if isinstance(p, SpaceAttr))
    return {name: size for space in spaces for name, size in space.data}


def scope_bounds(op: Operation) -> list[Bound]:
    """The bounds that hold where an operation stands."""
    bounds = (p for scope in scopes(op) for p in scope.properties.values() if isinstance(p, BoundsAttr))
    return [bound for found in bounds for bound in found.data]
