"""Origins in equal layers: those of the layer that a copy is for, in place of those of the layer copied."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation

from ocannl.dialects.ir.origins import in_each_layer, in_layer, name_of, origins, union
from ocannl.passes.analysis.equality.layers import Layers


class LayeredOrigins:
    """The origins of a routine of which layers were left out."""

    def __init__(self, layers: Layers, routine: Operation) -> None:
        self.layers = layers
        locations = {id(op.location): op.location for op in routine.walk()}.values()
        own = {id(origin): origin for location in locations for origin in origins(location)}.values()
        self.by_name = {name_of(each): each for origin in own for each in in_each_layer(origin) or (origin,)}
        self.known: dict[int, dict[int, LocationAttr]] = {}
        """Locations found before, by the distance and by the identity of a location."""
        self.later: dict[tuple[int, int], LocationAttr] = {}
        """The same of single origins, of which locations have many in common."""

    def at(self, distance: int) -> Callable[[LocationAttr], LocationAttr]:
        """Gives the locations of the corresponding operations `distance` layers later."""
        known = self.known.setdefault(distance, {})

        def location(own: LocationAttr) -> LocationAttr:
            found = known.get(id(own))
            if found is None:
                later = [self._later(origin, distance) for origin in origins(own)]
                found = known[id(own)] = union(*later) if later else own
            return found

        return location

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
