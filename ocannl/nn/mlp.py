"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence

import ocannl as oc
from ocannl.nn.layer import Layer


def mlp_layer(*, hid_dim: int, label: str = "layer") -> Layer:
    """`relu(w @ x + b)`: batch | in -> batch | hid_dim, with parameters `label.w`: in -> hid_dim and
    `label.b`: hid_dim.
    """
    with oc.scope(label):
        w, b = oc.param("w"), oc.param("b", 0.0, output=hid_dim)
    return lambda x: oc.relu(w @ x + b)


def mlp(*, hid_dims: Sequence[int], out_dim: int | None = None, label: str = "mlp") -> Layer:
    """Layers of `hid_dims` with relu, then a linear one without bias.

    The output's size is `out_dim`, or is inferred from its use.
    """
    with oc.scope(label):
        layers = [mlp_layer(hid_dim=dim, label=f"layer{i}") for i, dim in enumerate(hid_dims, 1)]
        w_out = oc.param("w_out", output=out_dim)

    def apply(x: oc.Tensor) -> oc.Tensor:
        for layer in layers:
            x = layer(x)
        return w_out @ x

    return apply
