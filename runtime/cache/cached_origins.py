"""Origins of operations in the cache on disk, beside the text of these. They are places of tensor expressions
in the program as built, whose lines differ in each program of the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp

from ocannl.dialects.ir.origins import across_layers, in_each_layer, origins, union
from ocannl.dialects.records import dataclass

# The place of an origin in the program, or those in each of several equal layers.
Places: TypeAlias = int | list[int]


@dataclass(frozen=True)
class CachedOrigins:
    """The origins of each operation of a module, as text."""

    text: str

    @staticmethod
    def of(module: ModuleOp, program: Sequence[LocationAttr]) -> CachedOrigins:
        """The origins in a module that was compiled from a program, whose locations are given.

        Many operations have the same set of origins, which is one object.
        """
        at = {id(location): place for place, location in reversed([*enumerate(program)])}
        locations = [op.location for op in module.walk()]
        several = {id(location): location for location in locations}
        number = {key: place for place, key in enumerate(several)}
        fields = {
            "sets": [[_places(origin, at) for origin in origins(location)] for location in several.values()],
            "operations": [number[id(location)] for location in locations],
        }
        return CachedOrigins(json.dumps(fields, separators=(",", ":")))

    def give(self, module: ModuleOp, program: Sequence[LocationAttr]) -> None:
        """Gives the operations of a module their origins in an equal program, by the locations of that."""
        fields = json.loads(self.text)
        sets: list[list[Places]] = fields["sets"]
        several = [union(UNKNOWN_LOC, *(_origin(places, program) for places in each)) for each in sets]
        for op, number in zip(module.walk(), fields["operations"], strict=True):
            op.location = several[number]


def _places(origin: LocationAttr, at: Mapping[int, int]) -> Places:
    layers = in_each_layer(origin)
    return at[id(origin)] if layers is None else [at[id(layer)] for layer in layers]


def _origin(places: Places, program: Sequence[LocationAttr]) -> LocationAttr:
    return program[places] if isinstance(places, int) else across_layers([program[at] for at in places])
