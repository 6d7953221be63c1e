"""Origins in equal layers: those of the layer that a copy is for, in place of those of the layer copied."""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation

from ocannl.dialects.ir.origins import in_each_layer, in_layer, name_of, origins, union
from ocannl.passes.analysis.layers import Layers


class LayeredOrigins:
    """The origins of a routine of which layers were left out."""

    def __init__(self, layers: Layers, routine: Operation) -> None:
        self.layers = layers
        locations = {id(op.location): op.location for op in routine.walk()}.values()
        own = {id(origin): origin for location in locations for origin in origins(location)}.values()
        self.by_name = {name_of(each): each for origin in own for each in in_each_layer(origin) or (origin,)}
        self.known: dict[tuple[int, int], LocationAttr] = {}
        """Locations found before, by the identity of a location and the distance."""
        self.later: dict[tuple[int, int], LocationAttr] = {}
        """The same of single origins, of which locations have many in common."""

    def move(self, step: Operation, distance: int) -> None:
        """Gives an operation, and those inside it, the origins of the corresponding ones `distance` layers
        later.
        """
        for op in step.walk():
            key = id(op.location), distance
            location = self.known.get(key)
            if location is None:
                found = [self._later(origin, distance) for origin in origins(op.location)]
                location = self.known[key] = union(*found) if found else op.location
            op.location = location

    def _later(self, origin: LocationAttr, distance: int) -> LocationAttr:
        key = id(origin), distance
        if key not in self.later:
            self.later[key] = self._found_later(origin, distance)
        return self.later[key]

    def _found_later(self, origin: LocationAttr, distance: int) -> LocationAttr:
        own, name = in_layer(origin, distance), name_of(origin)
        if own is not origin or name is None:
            return own
        label = self.layers.at(name, distance)
        return self.by_name.get(label, origin) if label else origin


def settle(step: Operation, layer: int | None) -> None:
    """Gives an operation, and those inside it, the origins in one of the layers left out, or in all."""
    for op in step.walk():
        op.location = in_layer(op.location, layer)
