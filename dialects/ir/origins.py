"""Origins: the tensor expressions, at lines of the user's program, that an operation comes from.

They stand in the location of the operation, as MLIR writes it. `loc("relu"("model.py":7:0))` is one origin:
the name of a tensor expression in the program, and its line. A place in IR text, `loc("model.mlir":3:5)`, is
one, too. Several are `loc(fused[...])`, and the one that the operation was made for is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import operations_of

LocationT = TypeVar("LocationT", bound=LocationAttr)
# The key of a location: names and numbers, and the identities of the locations in it.
_Key: TypeAlias = tuple[str | int, ...]

# Known locations: equal ones are one object, so that sets are compared and united by identity.
_LOCATIONS: dict[_Key, LocationAttr] = {}
# Unions by the identities of what was united: passes unite the same sets over and over.
_UNIONS: dict[tuple[int, int], tuple[LocationAttr, LocationAttr, LocationAttr]] = {}
# When there are so many, the tables begin anew: what was equal before may then be two objects.
_MOST = 2**15
_NO_METADATA = NoneAttr()
# An operation that stands for one of each of several equal layers has an origin of this name.
_LAYERS = "layers"


def _interned(key: _Key, make: Callable[[], LocationT]) -> LocationT:
    found = _LOCATIONS.get(key)
    if found is None:
        if len(_LOCATIONS) >= _MOST:
            _LOCATIONS.clear()
        found = _LOCATIONS[key] = make()
    return cast(LocationT, found)


def _unchecked(kind: type[LocationT], **parameters: Attribute) -> LocationT:
    """A location without the checks of its constructor, which take most of its time."""
    made = object.__new__(kind)
    for name, parameter in parameters.items():
        object.__setattr__(made, name, parameter)
    return made


def place(file: str, line: int, column: int = 0) -> FileLineColLoc:
    """A place in a text. Lines and columns count from 1; column 0 is the whole line."""
    key = ("place", file, line, column)
    return _interned(
        key,
        lambda: _unchecked(
            FileLineColLoc, filename=StringAttr(file), line=IntAttr(line), column=IntAttr(column)
        ),
    )


def named(name: str, at: LocationAttr) -> LocationAttr:
    """The origin of a tensor expression: its name in the program, and where it was written."""
    inner = at if is_known(at) else NoneAttr()
    return _interned(
        ("named", name, id(at)), lambda: _unchecked(NameLoc, desc=StringAttr(name), location=inner)
    )


def _fused(locations: Sequence[LocationAttr]) -> LocationAttr:
    key = ("fused", *map(id, locations))
    return _interned(
        key, lambda: _unchecked(FusedLoc, locations=ArrayAttr[Attribute](locations), metadata=_NO_METADATA)
    )


def is_known(location: LocationAttr) -> bool:
    return type(location) is not UnknownLoc


def origins(location: LocationAttr) -> tuple[LocationAttr, ...]:
    """The origins in a location, that for which the operation was made first; () if it is unknown."""
    if type(location) is FusedLoc:
        return cast("ArrayAttr[LocationAttr]", location.locations).data
    return (location,) if is_known(location) else ()


def union(*locations: LocationAttr) -> LocationAttr:
    """All origins of some locations, in this order, each once."""
    distinct = [*{id(location): location for location in locations}.values()]
    if len(distinct) == 1:
        return distinct[0]
    return _union(*distinct) if len(distinct) == 2 else _united(distinct)


def _united(locations: Iterable[LocationAttr]) -> LocationAttr:
    found = {id(origin): origin for location in locations for origin in origins(location)}
    return _fused(tuple(found.values())) if len(found) > 1 else next(iter(found.values()), UNKNOWN_LOC)


def _union(first: LocationAttr, second: LocationAttr) -> LocationAttr:
    key = (id(first), id(second))
    known = _UNIONS.get(key)
    if known is None:
        if len(_UNIONS) >= _MOST:
            _UNIONS.clear()
        known = _UNIONS[key] = (first, second, _united((first, second)))
    return known[2]


def merge(op: Operation, other: Operation) -> None:
    """Adds the origins of an operation that `op` replaces, or whose work it does, to its own."""
    if op.location is not other.location:
        op.location = _union(op.location, other.location)


def derive(ops: Iterable[Operation], location: LocationAttr) -> None:
    """Gives a location to operations that have none yet, and to those inside them."""
    for op in ops:
        if type(op.location) is UnknownLoc:
            op.location = location
        for region in op.regions:
            for block in region.blocks:
                derive(operations_of(block), location)


def inherit(value: SSAValue, op: Operation, made: Iterable[Operation] = ()) -> None:
    """Gives a value that replaces the result of `op` its origins, and so to what is made on the way."""
    derive(made, op.location)
    if isinstance(value.owner, Operation):
        merge(value.owner, op)


def at(location: LocationAttr) -> FileLineColLoc | None:
    """The place of the first origin."""
    first = next(iter(origins(location)), UNKNOWN_LOC)
    if isinstance(first, NameLoc):
        return None if isinstance(first.location, NoneAttr) else at(cast(LocationAttr, first.location))
    return first if isinstance(first, FileLineColLoc) else None


def name_of(origin: LocationAttr) -> str | None:
    """The name of the tensor expression, where the origin has one."""
    return origin.desc.data if isinstance(origin, NameLoc) else None


def across_layers(layers: Sequence[LocationAttr]) -> LocationAttr:
    """The origin of an operation that stands for one in each of several equal layers, in order."""
    return named(_LAYERS, _fused(tuple(layers)))


def in_layer(location: LocationAttr, layer: int | None) -> LocationAttr:
    """The origins in one of the layers for which an operation stands; without a layer, in all of them."""
    found: list[LocationAttr] = []
    for origin in origins(location):
        several = in_each_layer(origin) or (origin,)
        found += several if layer is None or len(several) == 1 else (several[layer],)
    if len(found) == 1:
        return found[0]
    return union(*found) if found else location


def in_each_layer(origin: LocationAttr) -> tuple[LocationAttr, ...] | None:
    """The origins that one stands for, in the order of layers; None for an origin of its own."""
    if type(origin) is NameLoc and type(origin.location) is FusedLoc:
        return origins(origin.location)
    return None


def interned(location: LocationAttr) -> LocationAttr:
    """A location that was made elsewhere, such as by a parser, as one that is compared by identity."""
    match location:
        case FileLineColLoc():
            return place(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            inner = UNKNOWN_LOC if isinstance(location.location, NoneAttr) else location.location
            return named(location.desc.data, interned(cast(LocationAttr, inner)))
        case FusedLoc():
            return _fused(tuple(map(interned, origins(location))))
        case _:
            return location


def without_origins(op: Operation) -> list[Operation]:
    """The operations, this one and those inside it, of which nobody knows where they come from."""
    return [inner for inner in op.walk() if not is_known(inner.location)]


def check_origins(op: Operation) -> None:
    """Raises VerifyException if something in `op` has no origin."""
    lost = without_origins(op)
    if lost:
        raise VerifyException(f"`{lost[0].name}` and {len(lost) - 1} more operations have lost their origins")
