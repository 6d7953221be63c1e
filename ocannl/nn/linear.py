"""The linear layer."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Init, Layer


@oc.configurable
def linear(
    *, out_dim: oc.RowSizes | None = None, bias: bool = True, init: Init = None, label: str = "linear"
) -> Layer:
    """`w @ x + b`: batch | in -> batch | out_dim, with parameters `label.w`: in -> out_dim and `label.b`:
    out_dim.

    The rows `in` and `out_dim` may have any number of axes. Without `out_dim` the output is inferred from its
    use. `init` is the initial value of `w`.
    """
    with oc.scope(label):
        w = oc.param("w", init, output=out_dim)
        b = oc.param("b", 0.0, output=out_dim) if bias else 0.0
    return lambda x: w @ x + b if bias else w @ x
