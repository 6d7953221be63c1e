"""Normalization of each image over its spatial axes, and over groups of channels."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.nn.norms import scaled
from ocannl.nn.options import check_not_negative
from ocannl.program.casts import floats
from ocannl.program.checks import integer


@oc.configurable
def group_norm(
    *,
    num_groups: int,
    spatial_axes: int = 2,
    epsilon: float = 1e-5,
    affine: bool = True,
    init: Init = 1.0,
    label: str = "group_norm",
) -> Layer:
    """Group normalization (Wu and He, 2018) to mean 0 and variance 1 over each of `num_groups` groups of
    channels and the last `spatial_axes` batch axes, then `gain * x + offset`: batch, height, width |
    channels, shape kept, with parameters `label.gain`, `label.offset`: channels.

    `init` is the initial gain; without `affine` there are no parameters. Raises `ShapeError` where the
    channels are no such groups.
    """
    groups = integer(num_groups, "num_groups", 1)
    check_not_negative(epsilon, "epsilon")
    with oc.scope(label):
        gain = oc.param("gain", init, input=[]) if affine else None
        offset = oc.param("offset", 0.0, input=[]) if affine else None
    places, cells = _spatial(spatial_axes)

    def apply(x: oc.Tensor) -> oc.Tensor:
        split = oc.einsum(f"{places} | g&c => {places} | g, c", x, g=groups)
        normal = _normalized(
            split, f"{places} | g, c", f"{cells} | g, 0", epsilon, ["c", *_names(spatial_axes)]
        )
        return scaled(oc.einsum(f"{places} | g, c => {places} | g&c", normal), gain, offset)

    return apply


@oc.configurable
def instance_norm(
    *,
    spatial_axes: int = 2,
    epsilon: float = 1e-5,
    affine: bool = False,
    init: Init = 1.0,
    label: str = "instance_norm",
) -> Layer:
    """Instance normalization (Ulyanov et al., 2016) to mean 0 and variance 1 over the last `spatial_axes`
    batch axes: batch, height, width | channels, shape kept. With `affine`, then `gain * x + offset` with
    parameters `label.gain`, `label.offset`: channels; `init` is the initial gain.
    """
    check_not_negative(epsilon, "epsilon")
    with oc.scope(label):
        gain = oc.param("gain", init, input=[]) if affine else None
        offset = oc.param("offset", 0.0, input=[]) if affine else None
    places, cells = _spatial(spatial_axes)

    def apply(x: oc.Tensor) -> oc.Tensor:
        normal = _normalized(x, f"{places} | ...", f"{cells} | ...", epsilon, _names(spatial_axes))
        return scaled(normal, gain, offset)

    return apply


def _names(spatial_axes: int) -> list[str]:
    return [f"n{k}" for k in range(integer(spatial_axes, "spatial_axes", 1))]


def _spatial(spatial_axes: int) -> tuple[str, str]:
    """The batch row with names for its spatial axes, and with one cell of each."""
    return ", ".join(["...", *_names(spatial_axes)]), ", ".join(["...", *["0"] * spatial_axes])


def _normalized(x: oc.Tensor, slot: str, reduced: str, epsilon: float, names: list[str]) -> oc.Tensor:
    dims: dict[str, Any] = {name: oc.Dim(name) for name in names}
    total = oc.einsum(f"{slot} => {reduced}", floats(x), **dims)
    count = reduce(mul, dims.values())
    centred = x - total / count
    variance = oc.einsum(f"{slot} => {reduced}", centred * centred) / count
    return centred * oc.recip_sqrt(variance + epsilon)
