"""The names and ranges of static indices."""

from __future__ import annotations

import itertools
from typing import ClassVar, TypeVar

from xdsl.ir import Operation

from ocannl.dialects.routine import IndicesAttr
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError

OpT = TypeVar("OpT", bound=Operation)


class StaticIndex:
    """A number by name that is known when a routine runs; with a range, one of 0, 1, ..., `range - 1`.

    Indices of equal name and range are equal.
    """

    _declared = itertools.count()
    names: ClassVar[set[str]] = set()
    """The names of all indices that were ever declared."""

    def __init__(self, name: str, range: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ArgumentError(f"an index is named by an identifier of ASCII letters, found {name!r}")
        self.name = name
        self.range = None if range is None else integer(range, f"the range of index {name!r}", least=1)
        self.order = next(StaticIndex._declared)
        StaticIndex.names.add(name)
        self._hash = hash((self.name, self.range))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticIndex) and (self.name, self.range) == (other.name, other.range)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name if self.range is None else f"{self.name}[0..{self.range - 1}]"


def tagged(op: OpT, *indices: StaticIndex) -> OpT:
    """Notes indices at an operation that uses them, for the routine's signature.

    There, indices stand in the order of their declaration.
    """
    if indices:
        op.attributes["indices"] = IndicesAttr(tuple([(index.name, index.range) for index in indices]))
        op.attributes["declared"] = IndicesAttr(tuple([(index.name, index.order) for index in indices]))
    return op
