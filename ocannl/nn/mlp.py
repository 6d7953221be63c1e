"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.program.tensor_functions.remembered import remembered


@oc.configurable
def mlp_layer(*, hid_dim: int, init: Init = None, label: str = "layer") -> Layer:
    """`relu(w @ x + b)`: batch | in -> batch | hid_dim, with parameters `label.w`: in -> hid_dim and
    `label.b`: hid_dim. `init` is the initial value of `w`.
    """
    with oc.scope(label):
        w, b = oc.param("w", init), oc.param("b", 0.0, output=hid_dim)
    return remembered(lambda x: oc.relu(w @ x + b))


@oc.configurable
def mlp(
    *, hid_dims: Sequence[int], out_dim: int | None = None, init: Init = None, label: str = "mlp"
) -> Layer:
    """Layers of `hid_dims` with relu, then a linear one without bias.

    The output's size is `out_dim`, or is inferred from its use. `init` is the initial value of all
    weights.
    """
    with oc.scope(label):
        layers = [mlp_layer(hid_dim=dim, init=init, label=f"layer{i}") for i, dim in enumerate(hid_dims, 1)]
        w_out = oc.param("w_out", init, output=out_dim)

    @remembered
    def apply(x: oc.Tensor) -> oc.Tensor:
        for layer in layers:
            x = layer(x)
        return w_out @ x

    return apply
