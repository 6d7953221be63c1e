"""Positional encodings: added to features, or applied to queries and keys as rotations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ocannl as oc
from ocannl.nn.layer import Init, Layer, PositionalLayer
from ocannl.nn.options import check_positive
from ocannl.program.eager.setting import is_eager
from ocannl.program.location import here
from ocannl.program.tensor_functions.remembered import remembered


@oc.configurable
def sinusoidal_positions(*, base: float = 10000.0, label: str = "positions") -> Layer:
    """`x` plus sines and cosines of the position (Vaswani et al., 2017): batch, position | features, shape
    kept.

    Feature 2k has the sine of `position / base ** (2k / features)`, feature 2k + 1 the cosine.
    """
    check_positive(base, "base")

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        features = _size(x.shape.output, "features")
        feature = oc.range(features)
        odd = feature % 2
        angle = _positions(x) * base ** ((odd - feature) / features)
        table = oc.where(odd, oc.cos(angle), oc.sin(angle)).named(label)
        return oc.einsum("... | f => ... | f", x, f=features) + table

    return apply


@oc.configurable
def learned_positions(*, num: int | None = None, init: Init = None, label: str = "positions") -> Layer:
    """Learned positional embedding, `x + w`: batch, position | features, with the parameter `label.w`:
    position | features.

    There are `num` positions, or as many as the sequences have. `init` is the initial value of `w`, by
    default normal with standard deviation 0.02.
    """
    positions = oc.Dim("positions") if num is None else num
    with oc.scope(label):
        w = oc.param("w", oc.init.normal(std=0.02) if init is None else init, batch=positions, input=[])
    return remembered(lambda x: x + w)


@oc.configurable
def rotary(*, base: float = 10000.0, interleaved: bool = False, label: str = "rotary") -> PositionalLayer:
    """Rotary positional embedding (Su et al., 2021) of queries or keys, whose products then depend on the
    distance of positions: batch, position | heads, features, shape kept. The positions are 0, 1, 2, ... or
    integers that are given, batch, position | .

    Features k and k + features / 2 are rotated by the angle `position / base ** (2k / features)`; with
    `interleaved`, features 2k and 2k + 1. Raises `ShapeError` for an odd number of features.
    """
    check_positive(base, "base")

    @remembered
    def apply(x: oc.Tensor, positions: oc.Tensor | None = None) -> oc.Tensor:
        size = _size(x.shape.output, "features")
        last = next(reversed(x.shape.output), None)
        known = last.known if isinstance(last, oc.Dim) else last
        if isinstance(known, int) and known % 2:
            raise oc.ShapeError(here(f"features are rotated in pairs, and {x} has {known}"))
        feature, half = oc.range(size), size / 2
        source = oc.einsum("f => f -> ", feature)
        odd = feature % 2
        if interleaved:
            quarter_turn = (oc.eq(feature, source + 1) * odd) - (oc.eq(source, feature + 1) * (1 - odd))
            pair = (feature - odd) / 2
        else:
            quarter_turn = oc.eq(feature, source + half) - oc.eq(source, feature + half)
            pair = feature % half
        turned = oc.einsum("... | ... s; s -> f => ... | ... f", x, quarter_turn, f=size)
        angle = (_positions(x) if positions is None else positions) * oc.exp(
            pair * (-2 * math.log(base) / size)
        )
        return (x * oc.cos(angle) + turned * oc.sin(angle)).named(label)

    return apply


def _positions(x: oc.Tensor) -> oc.Tensor:
    """The positions 0, 1, 2, ... along the last batch axis."""
    return oc.einsum("p => p | ", oc.range(_size(x.shape.batch, "positions")))


def _size(axes: Sequence[object], name: str) -> int | oc.Dim:
    """The size of the last of some axes, which is inferred; in eager mode as it is known now, so that what is
    made of it is found again.
    """
    last = axes[-1:] if is_eager() else ()
    return next((size for size in last if isinstance(size, int)), None) or oc.Dim(name)
