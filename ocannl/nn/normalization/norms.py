"""Normalization within each example, over the output row."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.nn.means import output_mean
from ocannl.nn.options import check_not_negative, check_outputs
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats


def scaled(normal: oc.Tensor, gain: oc.Tensor | None, offset: oc.Tensor | None = None) -> oc.Tensor:
    """`gain * normal + offset`, of which either may be left away."""
    normal = normal if gain is None else gain * normal
    return normal if offset is None else normal + offset


@oc.configurable
def layer_norm(
    *,
    dim: oc.RowSizes | None = None,
    epsilon: float = 1e-5,
    affine: bool = True,
    bias: bool = True,
    init: Init = 1.0,
    label: str = "layer_norm",
) -> Layer:
    """Layer normalization (Ba et al., 2016) to mean 0 and variance 1 over the output row, then
    `gain * x + offset`: batch | out -> batch | out, with parameters `label.gain`, `label.offset`: out.

    Without `bias` there is no offset, without `affine` no parameter at all. `init` is the initial gain. The
    row is `dim`, or inferred.
    """
    check_not_negative(epsilon, "epsilon")
    with oc.scope(label):
        gain = oc.param("gain", init, input=[], output=dim) if affine else None
        offset = oc.param("offset", 0.0, input=[], output=dim) if affine and bias else None

    return lambda x: _normalized(x, gain, offset, epsilon)


@remembered
def _normalized(x: oc.Tensor, gain: oc.Tensor | None, offset: oc.Tensor | None, epsilon: float) -> oc.Tensor:
    check_outputs(x, "layer_norm")
    centered = x - output_mean(x)
    scale = oc.recip_sqrt(output_mean(centered * centered) + epsilon)
    return scaled(centered * scale, gain, offset)


@oc.configurable
def rms_norm(
    *,
    dim: oc.RowSizes | None = None,
    epsilon: float = 1e-5,
    affine: bool = True,
    init: Init = 1.0,
    label: str = "rms_norm",
) -> Layer:
    """Root mean square normalization (Zhang and Sennrich, 2019) to mean square 1 over the output row, then
    `gain * x`: batch | out -> batch | out, with the parameter `label.gain`: out, which `affine=False` leaves
    away. `init` is the initial gain. The row is `dim`, or inferred.
    """
    check_not_negative(epsilon, "epsilon")
    with oc.scope(label):
        gain = oc.param("gain", init, input=[], output=dim) if affine else None

    return lambda x: _of_mean_square_1(x, gain, epsilon)


@remembered
def _of_mean_square_1(x: oc.Tensor, gain: oc.Tensor | None, epsilon: float) -> oc.Tensor:
    check_outputs(x, "rms_norm")
    x = floats(x)
    return scaled(x * oc.recip_sqrt(output_mean(x * x) + epsilon), gain)
