"""Origins in equal layers: those of the layer that a copy is for, in place of those of the layer copied."""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation

from ocannl.dialects.ir.origins import in_layer, name_of, origins, union
from ocannl.passes.analysis.layers import Layers


class LayeredOrigins:
    """The origins of a routine of which layers were left out."""

    def __init__(self, layers: Layers, routine: Operation) -> None:
        self.layers = layers
        locations = {id(op.location): op.location for op in routine.walk()}.values()
        everywhere = {each for location in locations for each in origins(in_layer(location, None))}
        self.by_name = {name_of(origin): origin for origin in everywhere}
        self.known: dict[tuple[int, int], LocationAttr] = {}
        """Locations found before, by the identity of a location and the distance."""

    def move(self, step: Operation, distance: int) -> None:
        """Gives an operation, and those inside it, the origins of the corresponding ones `distance` layers
        later.
        """
        for op in step.walk():
            key = id(op.location), distance
            if key not in self.known:
                found = [self._later(origin, distance) for origin in origins(op.location)]
                self.known[key] = union(op.location if not found else found[0], *found)
            op.location = self.known[key]

    def _later(self, origin: LocationAttr, distance: int) -> LocationAttr:
        own, name = in_layer(origin, distance), name_of(origin)
        if own is not origin or name is None:
            return own
        label = self.layers.at(name, distance)
        return self.by_name.get(label, origin) if label else origin


def settle(step: Operation, layer: int | None) -> None:
    """Gives an operation, and those inside it, the origins in one of the layers left out, or in all."""
    for op in step.walk():
        op.location = in_layer(op.location, layer)
