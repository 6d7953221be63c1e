"""Normalization of each image over its spatial axes, and over groups of channels."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Any

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.nn.normalization.norms import scaled
from ocannl.nn.options import check_not_negative
from ocannl.program.arguments.checks import integer
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats


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

    def shared(sums: oc.Tensor) -> oc.Tensor:
        """The mean over each group, for each of its channels."""
        size = oc.Dim("c")
        per_group = oc.einsum(f"{cells} | g&c => {cells} | g", sums, g=groups, c=size)
        return oc.einsum(f"{cells} | g => {cells} | g&c", per_group / size, c=size)

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        return scaled(_normalized(x, places, cells, epsilon, spatial_axes, shared), gain, offset)

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

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        return scaled(_normalized(x, places, cells, epsilon, spatial_axes), gain, offset)

    return apply


def _names(spatial_axes: int) -> list[str]:
    return [f"n{k}" for k in range(integer(spatial_axes, "spatial_axes", 1))]


def _spatial(spatial_axes: int) -> tuple[str, str]:
    """The batch row with names for its spatial axes, and with one cell of each."""
    return ", ".join(["...", *_names(spatial_axes)]), ", ".join(["...", *["0"] * spatial_axes])


def _normalized(
    x: oc.Tensor,
    places: str,
    cells: str,
    epsilon: float,
    spatial_axes: int,
    shared: Callable[[oc.Tensor], oc.Tensor] = lambda means: means,
) -> oc.Tensor:
    """To mean 0 and variance 1 over the spatial axes, with means of channels as `shared` by several. Sums
    over these come last: so images are read in the order of memory, a vector of channels at a time.
    """
    dims: dict[str, Any] = {name: oc.Dim(name) for name in _names(spatial_axes)}
    spec, count = f"{places} | ... => {cells} | ...", reduce(mul, dims.values())
    centred = x - shared(oc.einsum(spec, floats(x), **dims) / count)
    variance = shared(oc.einsum(spec, centred * centred) / count)
    return centred * oc.recip_sqrt(variance + epsilon)
