"""Batch normalization (Ioffe and Szegedy, 2015), with running statistics for use after training."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.images.layout import Layout, layout_of
from ocannl.nn.layer import Init, TrainingLayer
from ocannl.nn.normalization.norms import scaled
from ocannl.nn.options import check_not_negative, check_share
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats

OVER_BATCH = "..n.. | ..out.. => ..out.."


@oc.configurable
def batch_norm1d(
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    affine: bool = True,
    init: Init = 1.0,
    label: str = "batch_norm",
) -> TrainingLayer:
    """Normalizes to mean 0 and variance 1 over all batch axes, then `gain * x + offset`: batch | out -> batch
    | out, with parameters `label.gain`, `label.offset`: out and nodes `label.running_mean`,
    `label.running_variance`: out.

    With a `train_step`, statistics are those of the batch, and `oc.updates(loss)`, which `train.grad_update`
    runs, sets the running ones to `momentum * running + (1 - momentum) * batch`. Without, the running ones
    are used. `init` is the initial gain; without `affine` there are no parameters.
    """
    return _batch_norm(epsilon, momentum, affine, init, label)


@oc.configurable
def batch_norm2d(
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    affine: bool = True,
    spatial: str = "batch",
    init: Init = 1.0,
    label: str = "batch_norm",
) -> TrainingLayer:
    """`batch_norm1d` for images: batch, height, width | channels. Their spatial axes are batch axes; with
    `spatial="output"` they are the first output axes, batch | height, width, channels.
    """
    return _batch_norm(epsilon, momentum, affine, init, label, layout_of("hw", spatial))


def _batch_norm(
    epsilon: float, momentum: float, affine: bool, init: Init, label: str, layout: Layout | None = None
) -> TrainingLayer:
    check_not_negative(epsilon, "epsilon")
    check_share(momentum, "momentum")
    with oc.scope(label):
        gain = oc.param("gain", init, input=[]) if affine else None
        offset = oc.param("offset", 0.0, input=[]) if affine else None
        running_mean = oc.node("running_mean", like=offset, init=0.0)
        running_variance = oc.node("running_variance", like=running_mean if gain is None else gain, init=1.0)

    def normalize(x: oc.Tensor, mean: oc.Tensor, variance: oc.Tensor) -> oc.Tensor:
        normal = scaled((x - mean) * oc.recip_sqrt(variance + epsilon), gain, offset)
        return normal if layout is None else layout.outward(normal)

    @remembered
    def after_training(x: oc.Tensor) -> oc.Tensor:
        return normalize(x if layout is None else layout.inward(x), running_mean, running_variance)

    @remembered
    def in_training(x: oc.Tensor) -> oc.Tensor:
        x, n = x if layout is None else layout.inward(x), oc.Dim("n")
        mean = oc.einsum(OVER_BATCH, floats(x), n=n) / n
        variance = oc.einsum(OVER_BATCH, (x - mean) * (x - mean)) / n
        result = normalize(x, mean, variance)
        with oc.code(f"{label} running statistics") as update:
            running_mean[...] = momentum * running_mean + (1 - momentum) * mean
            unbiased = variance * n / oc.maximum(n - 1, 1)
            running_variance[...] = momentum * running_variance + (1 - momentum) * unbiased
        oc.add_update(result, update)
        return result

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        return after_training(x) if train_step is None else in_training(x)

    return apply
